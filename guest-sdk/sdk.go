// Package guestsdk has the sources of the SDKs that are not in a package registry. wfhost new writes them into a project.
package guestsdk

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed c/workflow.h cpp/workflow.hpp rust/Cargo.toml rust/README.md rust/src assemblyscript/assembly
var sources embed.FS

// files maps each language to the files and folders of its SDK, and their names in the project.
var files = map[string]map[string]string{
	"c":    {"c/workflow.h": "workflow.h"},
	"cpp":  {"c/workflow.h": "workflow.h", "cpp/workflow.hpp": "workflow.hpp"},
	"rust": {"rust/Cargo.toml": "Cargo.toml", "rust/README.md": "README.md", "rust/src": "src"},
	"as":   {"assemblyscript/assembly": "."},
}

// Write writes the SDK of a language into a folder. It creates the folder if necessary.
func Write(lang, dir string) error {
	list, ok := files[lang]
	if !ok {
		return fmt.Errorf("there is no SDK for %q to be written", lang)
	}
	for from, to := range list {
		if err := write(from, filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file or folder of the sources.
func write(from, to string) error {
	return fs.WalkDir(sources, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(name, from), "/")))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // the sources are public
			return err
		}
		return os.WriteFile(target, b, 0o644) //nolint:gosec // likewise
	})
}
