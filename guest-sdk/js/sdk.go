// Package js has the SDK for TypeScript and JavaScript, the npm package @wfhost/workflow, so that wfhost can build programs
// without npm.
package js

import (
	"embed"
	"strings"
)

// Package is the name of the npm package.
const Package = "@wfhost/workflow"

// Files holds the files of the npm package.
//
//go:embed package.json LICENSE README.md *.d.ts src
var Files embed.FS

// parts maps the paths that a workflow may import to their files.
var parts = map[string]string{"": "src/index.js", "/engine": "src/engine.js"}

// Resolve returns the file in Files for an import path. It returns false if the path is not in the package.
func Resolve(path string) (file string, ok bool) {
	rest, ok := strings.CutPrefix(path, Package)
	if !ok {
		return "", false
	}
	file, ok = parts[rest]
	return file, ok
}
