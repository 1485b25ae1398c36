// Command audited is a version of the workflows of package plan with one more step, which has no marker.
package main

import "github.com/wfhost/wfhost/host/testdata/year/plan"

func init() { plan.Code{Tuned: true, Survey: true, Audit: true}.Register() }

func main() {}
