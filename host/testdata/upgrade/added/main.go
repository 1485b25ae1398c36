// Command added is a version of the workflows of package order with a step in the middle.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "added", Packing: 30 * day, Notes: 1, Added: true}.Register() }

func main() {}
