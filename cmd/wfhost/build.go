package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/typescript"
)

type buildCmd struct {
	Path string `arg:"" help:"${program} A .wasm file is checked."`
	Out  string `short:"o" name:"out" help:"File to write; default: the folder's name with .wasm."`
}

func (c *buildCmd) Run(g *globals) error {
	wasm, name, err := module(g.ctx, c.Path)
	if err != nil {
		return err
	}
	h, err := host.Open(g.ctx, host.Config{Store: memstore.New().Open()})
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }() // memory only
	versions, err := h.UploadAll(g.ctx, name, wasm)
	if err != nil && errors.Is(err, host.ErrInvalid) {
		versions, err = h.UploadAll(g.ctx, "", wasm)
	}
	if err != nil {
		return err
	}
	if c.Out == "" {
		c.Out = name + ".wasm"
	}
	if filepath.Ext(c.Path) != ".wasm" {
		if err := os.WriteFile(c.Out, wasm, 0o644); err != nil {
			return err
		}
	}
	if g.Format == "json" {
		return g.json(map[string]any{"file": c.Out, "bytes": len(wasm), "module": versions[0].Digest,
			"workflows": workflowsOf(versions)})
	}
	_, err = fmt.Fprintf(g.io.out, "%s  %d bytes  workflows: %s\nsha256 %s\n", c.Out, len(wasm),
		strings.Join(workflowsOf(versions), ", "), versions[0].Digest)
	return err
}

func workflowsOf(versions []host.Version) []string {
	var names []string
	for _, v := range versions {
		names = append(names, v.Workflow)
	}
	return names
}

// module reads a .wasm file, builds a TypeScript or JavaScript program, compiles the program in a folder, or makes a module
// of a definition. The name comes from the path, the package or the definition.
func module(ctx context.Context, path string) (wasm []byte, name string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", &exitCode{exitNotFound, fmt.Errorf("%s: there is no such file or folder", path)}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	name = strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if info.IsDir() {
		if wasm, ok, err := compileOther(ctx, abs); ok { // before TypeScript, since AssemblyScript also has a package.json
			return wasm, filepath.Base(abs), err
		}
	}
	if typescript.Is(path) {
		return typescript.Build(ctx, path)
	}
	if info.IsDir() {
		name = filepath.Base(abs)
		wasm, err = compile(ctx, abs)
		return wasm, name, err
	}
	if isDefinition(path) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		f, err := parseDefinition(path, text)
		if err != nil {
			return nil, "", err
		}
		wasm, err = f.module(ctx, "")
		return wasm, f.d.Name, err
	}
	if info.Size() > abi.MaxModuleBytes {
		return nil, "", fmt.Errorf("%s has %d bytes, the limit of a module is %d", path, info.Size(), abi.MaxModuleBytes)
	}
	wasm, err = os.ReadFile(path)
	return wasm, name, err
}

// compiledBytes bounds the user's folder of compiled modules: some 30 Go modules.
const compiledBytes = 512 << 20

// compiledModules returns the user's folder of compiled modules, which commands without a server share, so that only the first
// one compiles a module. It returns "" if there is none, or if the data is encrypted: nothing of encrypted data, its code
// included, is left elsewhere.
func compiledModules(codec host.Codec) string {
	if codec != nil {
		return ""
	}
	return host.UserCacheDir()
}

// sdkImport recognizes a workflow that registers itself with the SDK. Other programs run by their main function.
var sdkImport = regexp.MustCompile(`"github.com/wfhost/wfhost/(guest-sdk/go/workflow|definition/interpret)"|` +
	`//go:wasmexport\s+(workflow_run|run)\b`)

// compile builds the Go program in a folder for WebAssembly.
func compile(ctx context.Context, dir string) ([]byte, error) {
	if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err == nil && len(files) == 0 {
		return nil, fmt.Errorf("%s: the folder has no program: no Go files, no package.json, and none of %s", dir,
			strings.Join(typescript.Entries(), ", "))
	}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("%s is a folder, and to compile it Go must be installed (https://go.dev/dl): %w", dir, err)
	}
	if name, err := goCommand(ctx, dir, "list", "-f", "{{.Name}}", ".").Output(); err == nil {
		if name := strings.TrimSpace(string(name)); name != "main" {
			return nil, fmt.Errorf("%s holds the package %s; a workflow is a main package", dir, name)
		}
	}
	tmp, err := os.MkdirTemp("", "wfhost-build-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a leftover in a temporary folder
	out := filepath.Join(tmp, "module.wasm")
	args := []string{"build", "-trimpath", "-o", out}
	if exports(dir) {
		args = append(args, "-buildmode=c-shared")
	}
	cmd := goCommand(ctx, dir, append(args, ".")...)
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build of %s: %w\n%s", dir, err, messages.Bytes())
	}
	return os.ReadFile(out)
}

// goCommand returns a go command for WebAssembly in a folder.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	return cmd
}

// exports reports whether the program in a folder exports an entry point.
func exports(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && sdkImport.Match(b) {
			return true
		}
	}
	return false
}
