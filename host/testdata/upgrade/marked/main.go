// Command marked is a version of the workflows of package order with a step behind a marker.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "marked", Packing: 30 * day, Notes: 2, Marked: true}.Register() }

func main() {}
