// Command v1 is a version of the workflows of package order, the first.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "v1", Packing: 30 * day, Notes: 2}.Register() }

func main() {}
