// Command loops is a version of the workflows of package order that never ends.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "loops", Packing: day, Loops: true}.Register() }

func main() {}
