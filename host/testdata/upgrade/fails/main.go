// Command fails is a version of the workflows of package order that breaks down.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "fails", Packing: day, Fails: true}.Register() }

func main() {}
