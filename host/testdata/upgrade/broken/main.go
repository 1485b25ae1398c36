// Command broken is a version of the workflows of package order that ships nothing.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "broken", Packing: 30 * day, Broken: true, Notes: 2}.Register() }

func main() {}
