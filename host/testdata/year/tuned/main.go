// Command tuned is a version of the workflows of package plan that does the same.
package main

import "github.com/wfhost/wfhost/host/testdata/year/plan"

func init() { plan.Code{Tuned: true}.Register() }

func main() {}
