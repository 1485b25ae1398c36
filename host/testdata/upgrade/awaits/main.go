// Command awaits is a version of the workflows of package order in which naps wait for a note.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "awaits", Packing: 30 * day, Notes: 2, Awaits: true}.Register() }

func main() {}
