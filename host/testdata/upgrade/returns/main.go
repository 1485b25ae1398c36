// Command returns is a version of the workflows of package order that ends too early.
package main

import (
	"time"

	"github.com/wfhost/wfhost/host/testdata/upgrade/order"
)

const day = 24 * time.Hour

func init() { order.Code{Name: "returns", Packing: day, Returns: true}.Register() }

func main() {}
