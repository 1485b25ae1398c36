// Command wfhostvet finds mistakes in workflows of the Go SDK: go vet -vettool=$(which wfhostvet) ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/wfhost/wfhost/guest-sdk/go/wfhostvet"
)

func main() { unitchecker.Main(wfhostvet.Analyzer) }
