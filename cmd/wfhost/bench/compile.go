package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/wfhost/wfhost/abi"
)

// sources is the folder of the guests in Go, TypeScript and C in the repository.
const sources = "examples/bench"

// guest returns the module of a guest with all workflows in one module, nil for other guests.
func (o *Hosted) guest(env *Env) ([]byte, error) {
	switch {
	case o.Module != "":
		info, err := os.Stat(o.Module)
		if err != nil {
			return nil, fmt.Errorf("--module: %w", err)
		}
		if info.Size() > abi.MaxModuleBytes {
			return nil, usagef("--module %s has %d bytes, the limit of a module is %d", o.Module, info.Size(), abi.MaxModuleBytes)
		}
		return os.ReadFile(o.Module)
	case o.Guest == Go:
		if _, err := exec.LookPath("go"); err != nil {
			return nil, errors.New("--guest go is compiled by the Go toolchain, which is not installed (https://go.dev/dl): install " +
				"it, or give the compiled workflows by --module")
		}
		dir, err := sourceDir()
		if err != nil {
			return nil, err
		}
		env.Say("compiling " + dir)
		return env.Compile(env.Ctx, dir)
	case o.Guest == TS:
		dir, err := sourceDir()
		if err != nil {
			return nil, err
		}
		return env.Compile(env.Ctx, filepath.Join(dir, "bench.ts"))
	}
	return nil, nil
}

// sourceDir finds the source of the guests. The working directory must be in the repository.
func sourceDir() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, sources, "main.go")); err == nil {
			return filepath.Join(dir, sources), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("the source of the guests, %s of the repository of wfhost, is not in %s or a folder above it: go "+
				"there, or give the compiled workflows by --module", sources, at)
		}
	}
}

// compileC compiles a workflow of the guest in C. Each of its modules has one workflow.
func compileC(ctx context.Context, workflow string) (wasm []byte, err error) {
	for _, tool := range []string{"clang", "wasm-ld"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("--guest c is compiled by clang for WebAssembly, and %s is not installed: install clang and lld, "+
				"or give the compiled workflow by --module", tool)
		}
	}
	dir, err := sourceDir()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "wfhost-bench-c-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	out, source := filepath.Join(tmp, "bench.wasm"), filepath.Join(dir, "c", "bench.c")
	cmd := exec.CommandContext(ctx, "clang", "--target=wasm32", "-mbulk-memory", "-O2", "-nostdlib", "-Wl,--no-entry",
		"-DWORKFLOW="+workflow, "-o", out, source)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("clang cannot compile %s for WebAssembly: %w\n%s", source, err, text)
	}
	return os.ReadFile(out)
}
