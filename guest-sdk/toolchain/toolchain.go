// Package toolchain compiles workflows in C, C++, Rust and AssemblyScript to modules, with the compilers on this machine.
package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// MissingError is the error for a tool that is not on this machine.
type MissingError struct {
	Lang string // the language, for people
	Tool string
	Hint string // how to install the tool
}

// Error names the missing tool and says how to install it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("to compile %s, %s must be installed: %s", e.Lang, e.Tool, e.Hint)
}

// ErrUnknown is the error for a folder without a program in a supported language.
var ErrUnknown = errors.New("it holds no program in C, C++, Rust or AssemblyScript: no *.c, *.cpp, Cargo.toml or asconfig.json")

// lang is a language: the files that identify its programs, and the function that compiles them.
type lang struct {
	name    string
	pattern string
	compile func(ctx context.Context, dir string, files []string, out string) error
}

// langs lists the languages in the order in which find tries them.
var langs = []lang{
	{"Rust", "Cargo.toml", compileRust},
	{"AssemblyScript", "asconfig.json", compileAssemblyScript},
	{"C++", "*.cpp", compileCPP},
	{"C", "*.c", compileC},
}

// Find returns the language of the program in a folder; ok is false if there is none.
func Find(dir string) (name string, ok bool) {
	l, _ := find(dir)
	if l == nil {
		return "", false
	}
	return l.name, true
}

func find(dir string) (*lang, []string) {
	for i := range langs {
		if files, err := filepath.Glob(filepath.Join(dir, langs[i].pattern)); err == nil && len(files) > 0 {
			return &langs[i], files
		}
	}
	return nil, nil
}

// Compile compiles the program in a folder to a module. It returns a *MissingError if a tool is not installed.
func Compile(ctx context.Context, dir string) ([]byte, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l, files := find(abs)
	if l == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrUnknown)
	}
	tmp, err := os.MkdirTemp("", "wfhost-compile-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a leftover in a temporary folder
	out := filepath.Join(tmp, "module.wasm")
	if err := l.compile(ctx, abs, files, out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// run runs a tool in a folder. The error contains the tool's output.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s in %s: %w\n%s", filepath.Base(name), dir, err, bytes.TrimSpace(messages.Bytes()))
	}
	return nil
}

// need returns a *MissingError if one of the tools is not in PATH.
func need(lang, hint string, tools ...string) error {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return &MissingError{lang, tool, hint}
		}
	}
	return nil
}

// includes returns the flags for the folders with the SDK's headers: the project, and its folder wfhost.
func includes(dir string) []string {
	return []string{"-I" + dir, "-I" + filepath.Join(dir, "wfhost")}
}

// clang compiles the files of a program with the flags in compile, then links it with the flags in link. It takes two steps
// because clang, when it links with optimization, runs the wasm-opt in PATH, which refuses instructions that are not enabled
// for it.
func clang(ctx context.Context, dir, cc string, files, compile, link []string, out string) error {
	link = append(link, "-o", out)
	compile = append(append(compile, "-O2", "-Wall", "-mbulk-memory"), includes(dir)...)
	for i, file := range files {
		object := filepath.Join(filepath.Dir(out), fmt.Sprint(i, ".o"))
		if err := run(ctx, dir, nil, cc, append(compile[:len(compile):len(compile)], "-c", "-o", object, file)...); err != nil {
			return err
		}
		link = append(link, object)
	}
	return run(ctx, dir, nil, cc, link...)
}

func compileC(ctx context.Context, dir string, files []string, out string) error {
	if err := need("C", "on Debian and Ubuntu: apt-get install clang lld", "clang", "wasm-ld"); err != nil {
		return err
	}
	const target = "--target=wasm32"
	return clang(ctx, dir, "clang", files, []string{target, "-std=c11"},
		[]string{target, "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all"}, out)
}

// hintCPP says how to install the standard library for WASI, which is not part of clang.
const hintCPP = "on Debian and Ubuntu: apt-get install clang lld libc++-dev-wasm32 wasi-libc libclang-rt-dev-wasm32; " +
	"elsewhere: the wasi-sdk, whose bin must come first in PATH"

func compileCPP(ctx context.Context, dir string, files []string, out string) error {
	if err := need("C++", hintCPP, "clang++", "wasm-ld"); err != nil {
		return err
	}
	const target = "--target=wasm32-wasi"
	flags := []string{target, "-std=c++20", "-fno-exceptions", "-fno-rtti"}
	probe := append(flags[:len(flags):len(flags)], "-fsyntax-only", "-include", "coroutine", "-x", "c++", os.DevNull)
	if err := run(ctx, dir, nil, "clang++", probe...); err != nil {
		return &MissingError{"C++", "a standard library of C++20 for WASI", hintCPP}
	}
	return clang(ctx, dir, "clang++", files, flags, []string{target, "-mexec-model=reactor", "-Wl,--strip-all"}, out)
}

func compileAssemblyScript(ctx context.Context, dir string, _ []string, out string) error {
	asc, ok := "", false
	for at := dir; !ok; at = filepath.Dir(at) { // searches the parents, as node does for packages
		asc = filepath.Join(at, "node_modules", ".bin", "asc")
		_, err := os.Stat(asc)
		ok = err == nil
		if ok || at == filepath.Dir(at) {
			break
		}
	}
	if !ok {
		path, err := exec.LookPath("asc")
		if err != nil {
			return &MissingError{"AssemblyScript", "asc", "npm install in the folder, or npm install --global assemblyscript"}
		}
		asc = path
	}
	return run(ctx, dir, nil, asc, "--config", "asconfig.json", "--target", "release", "--outFile", out)
}

// copyFile copies a file. The target may be on another disk.
func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644) //nolint:gosec // a module that everybody may read
}
