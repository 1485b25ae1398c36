// Package typescript builds workflows in TypeScript and JavaScript. It makes one script of a program and the packages that it
// imports, compiles that to bytecode, and puts the bytecode into the data of the JavaScript engine. It needs no Node.
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

// extensions are those of programs.
var extensions = []string{".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}

// entries are where a program of a folder begins if its package.json does not say so, the first that there is.
var entries = []string{"src/index.ts", "src/main.ts", "src/workflow.ts", "index.ts", "main.ts", "workflow.ts", "src/index.js",
	"src/main.js", "src/workflow.js", "index.js", "main.js", "workflow.js"}

// Entries returns the files at which programs of folders begin.
func Entries() []string { return slices.Clone(entries) }

// Is reports whether a path is a program that Build takes: a file with the extension of one, or a folder without Go files that
// has a package.json, or a file at which programs begin.
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

// program is what is built.
type program struct {
	dir   string // absolute
	entry string // a file in it
	name  string // of the workflow that the file exports as its default
	named string // what has that name: file, folder or package
}

// Build returns the module of a program. The path is one that Is takes. The name is that of the workflow
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

// errNoEntry is for folders without a program.
var errNoEntry = errors.New(`package.json does not say where the program begins: set "source", such as "src/index.ts"`)
