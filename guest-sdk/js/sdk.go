// Package js holds the SDK for TypeScript and JavaScript, the npm package @wfhost/workflow, so that wfhost builds programs
// without npm.
package js

import (
	"embed"
	"strings"
)

// Package is the name of the npm package.
const Package = "@wfhost/workflow"

// Files has the npm package.
//
//go:embed package.json LICENSE README.md *.d.ts src
var Files embed.FS

// parts are what a workflow may import, and the file of each.
var parts = map[string]string{"": "src/index.js", "/engine": "src/engine.js"}

// Resolve returns the file of Files that an import of the package means in a workflow.
func Resolve(path string) (file string, ok bool) {
	rest, ok := strings.CutPrefix(path, Package)
	if !ok {
		return "", false
	}
	file, ok = parts[rest]
	return file, ok
}
