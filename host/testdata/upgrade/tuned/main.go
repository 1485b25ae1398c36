// Command tuned is a version of the workflows of package order in which a sleep is longer, and desks take more notes.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "tuned", Packing: 40 * day, Notes: 3}.Register() }

func main() {}
