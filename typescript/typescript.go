// Package typescript builds workflows in TypeScript and JavaScript. It makes one script of a program and the packages that it
// imports, compiles that to bytecode, and puts the bytecode into the data of the JavaScript engine. It needs no Node.
package typescript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/typescript/engine"
)

// extensions are those of programs.
var extensions = []string{".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}

// entries are where a program of a folder begins if its package.json does not say so, the first that there is.
var entries = []string{"src/index.ts", "src/main.ts", "src/workflow.ts", "index.ts", "main.ts", "workflow.ts", "src/index.js",
	"src/main.js", "src/workflow.js", "index.js", "main.js", "workflow.js"}

// Is reports whether a path is a program that Build takes: a file with the extension of one, or a folder with a package.json
// and without Go files.
func Is(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return slices.Contains(extensions, filepath.Ext(path)) && !strings.HasSuffix(path, ".d.ts")
	}
	goFiles, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil || len(goFiles) > 0 {
		return false
	}
	_, err = os.Stat(filepath.Join(path, "package.json"))
	return err == nil
}

// program is what is built.
type program struct {
	dir   string // absolute
	entry string // a file in it
	name  string // of the workflow that the file exports as its default
}

// Build returns the module of a program. The path is a file, or a folder with a package.json. The name is that of the workflow
// that the program exports as its default, if it does.
func Build(ctx context.Context, path string) (wasm []byte, name string, err error) {
	p, err := find(path)
	if err != nil {
		return nil, "", err
	}
	script, err := bundle(p)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	wasm, err = engine.Make(ctx, script)
	if err == nil && len(wasm) > abi.MaxModuleBytes {
		err = fmt.Errorf("the module has %d bytes, the limit is %d", len(wasm), abi.MaxModuleBytes)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return wasm, p.name, nil
}

// find looks up where a program begins.
func find(path string) (program, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return program{}, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return program{}, err
	}
	if !info.IsDir() {
		base := filepath.Base(abs)
		return program{dir: filepath.Dir(abs), entry: base, name: strings.TrimSuffix(base, filepath.Ext(base))}, nil
	}
	p := program{dir: abs, name: filepath.Base(abs)}
	text, err := os.ReadFile(filepath.Join(abs, "package.json"))
	if err != nil {
		return program{}, err
	}
	var pkg struct {
		Name   string `json:"name"`
		Source string `json:"source"`
		Module string `json:"module"`
		Main   string `json:"main"`
	}
	if err := json.Unmarshal(text, &pkg); err != nil {
		return program{}, fmt.Errorf("%s: %w", filepath.Join(path, "package.json"), err)
	}
	if pkg.Name != "" {
		p.name = pkg.Name[strings.LastIndexByte(pkg.Name, '/')+1:] // without its scope
	}
	for _, entry := range append([]string{pkg.Source, pkg.Module, pkg.Main}, entries...) {
		if info, err := os.Stat(filepath.Join(abs, entry)); entry != "" && err == nil && !info.IsDir() {
			p.entry = filepath.Clean(entry)
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%s: %w", path, errNoEntry)
}

// errNoEntry is for folders without a program.
var errNoEntry = errors.New(`package.json does not say where the program begins: set "source", such as "src/index.ts"`)
