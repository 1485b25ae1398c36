package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	guestsdk "github.com/wfhost/wfhost/guest-sdk"
	"github.com/wfhost/wfhost/guest-sdk/toolchain"
)

// language describes what `wfhost new` writes for a language other than Go.
type language struct {
	files []string // files of the project; the templates are in the language's folder, with suffix .tmpl
	sdk   string   // the project's folder for the SDK
	first string   // command to run before the first build; empty if none
}

// languages are the languages whose SDK is in package guestsdk.
var languages = map[string]language{
	"c":    {[]string{"main.c", "test.sh", "README.md"}, "wfhost", ""},
	"cpp":  {[]string{"main.cpp", "test.sh", "README.md"}, "wfhost", ""},
	"rust": {[]string{"Cargo.toml", "src/lib.rs", "test.sh", "README.md"}, "wfhost-workflow", ""},
	"as": {[]string{"package.json", "asconfig.json", "assembly/index.ts", "test.sh", "README.md"}, "assembly/wfhost",
		"npm install"},
}

// other writes a project for a language other than Go, with its SDK.
func (c *newCmd) other(g *globals) error {
	if c.Module != "" || c.Source != "" {
		return &exitCode{exitUsage, fmt.Errorf("--module and --source are for Go: a project with --lang %s has the SDK in it", c.Lang)}
	}
	if err := os.Mkdir(c.Name, 0o755); errors.Is(err, os.ErrExist) {
		return &exitCode{exitConflict, fmt.Errorf("%s is there already: nothing was written", c.Name)}
	} else if err != nil {
		return err
	}
	l := languages[c.Lang]
	data := map[string]string{"Name": c.Name, "SDK": modulePath}
	for _, name := range l.files {
		path := filepath.Join(c.Name, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := write(path, "template/"+c.Lang+"/"+name+".tmpl", data); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(c.Name, "test.sh"), 0o755); err != nil {
		return err
	}
	if err := guestsdk.Write(c.Lang, filepath.Join(c.Name, filepath.FromSlash(l.sdk))); err != nil {
		return err
	}
	first := ""
	if l.first != "" {
		first = "  " + l.first + "\n"
	}
	_, err := fmt.Fprintf(g.io.out, "%s\n\n  cd %[1]s\n%[2]s  ./test.sh\n  wfhost run . --skip-sleep --input '\"Ada\"'\n",
		c.Name, first)
	return err
}

// compileOther compiles a program in a language other than Go; ok is false if the folder has none.
func compileOther(ctx context.Context, dir string) (wasm []byte, ok bool, err error) {
	if _, ok := toolchain.Find(dir); !ok {
		return nil, false, nil
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err == nil && len(files) > 0 { // a Go program may have C files
		return nil, false, nil
	}
	wasm, err = toolchain.Compile(ctx, dir)
	return wasm, true, err
}
