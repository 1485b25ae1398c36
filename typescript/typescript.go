// Package typescript builds workflows in TypeScript and JavaScript. It bundles a program and the packages that it imports into
// one script, compiles the script to bytecode, and adds the bytecode to the data of the JavaScript engine. It does not need
// Node.
package typescript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/typescript/engine"
)

// extensions are the file extensions of programs.
var extensions = []string{".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}

// entries are the entry files of a folder, in order of precedence, if its package.json names none.
var entries = []string{"src/index.ts", "src/main.ts", "src/workflow.ts", "index.ts", "main.ts", "workflow.ts", "src/index.js",
	"src/main.js", "src/workflow.js", "index.js", "main.js", "workflow.js"}

// Entries returns the names of the files that may be the entry of a folder, in order of precedence.
func Entries() []string { return slices.Clone(entries) }

// Is reports whether Build accepts a path: a file with the extension of a program, except .d.ts, or a folder without Go files
// that has a package.json or one of the Entries.
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
	return slices.ContainsFunc(append([]string{"package.json"}, entries...), func(name string) bool { return isFile(path, name) })
}

func isFile(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && !info.IsDir()
}

// program is a program to build.
type program struct {
	dir   string // absolute
	entry string // a file in it
	name  string // the name of the workflow in the default export
	named string // the origin of the name: file, folder or package
}

// Build returns the module of a program. Is must accept the path. name is the name of the workflow in the program's default
// export, if it has one.
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

// find finds the entry and the name of a program.
func find(path string) (program, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return program{}, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return program{}, err
	}
	base := filepath.Base(abs)
	if !info.IsDir() {
		return program{dir: filepath.Dir(abs), entry: base, name: strings.TrimSuffix(base, filepath.Ext(base)), named: "file"}, nil
	}
	p := program{dir: abs, name: base, named: "folder"}
	var pkg struct {
		Name   string `json:"name"`
		Source string `json:"source"`
		Module string `json:"module"`
		Main   string `json:"main"`
	}
	text, err := os.ReadFile(filepath.Join(abs, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &pkg)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return program{}, fmt.Errorf("%s: %w", filepath.Join(path, "package.json"), err)
	}
	if pkg.Name != "" {
		p.name, p.named = pkg.Name[strings.LastIndexByte(pkg.Name, '/')+1:], "package" // without its scope
	}
	if pkg.Source != "" && !isFile(abs, pkg.Source) {
		return program{}, fmt.Errorf("%s: \"source\" is %q, where the program should begin, and there is no such file",
			filepath.Join(path, "package.json"), pkg.Source)
	}
	for _, entry := range append([]string{pkg.Source, pkg.Module, pkg.Main}, entries...) {
		if entry != "" && isFile(abs, entry) {
			p.entry = filepath.Clean(entry)
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%s: %w", path, errNoEntry)
}

// errNoEntry is the error for a folder without an entry.
var errNoEntry = errors.New(`package.json does not say where the program begins: set "source", such as "src/index.ts"`)
