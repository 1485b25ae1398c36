// Command marked is a version of the workflows of package plan with a step behind a marker.
package main

import "github.com/wfhost/wfhost/host/testdata/year/plan"

func init() { plan.Code{Tuned: true, Survey: true}.Register() }

func main() {}
