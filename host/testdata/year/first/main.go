// Command first is a version of the workflows of package plan, the first.
package main

import "github.com/wfhost/wfhost/host/testdata/year/plan"

func init() { plan.Code{}.Register() }

func main() {}
