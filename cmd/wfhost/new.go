package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/js"
)

// modulePath is the Go module of the SDK and of this command.
const modulePath = "github.com/wfhost/wfhost"

//go:embed template
var templates embed.FS

type newCmd struct {
	Name   string `arg:"" help:"Name of the workflow, and of the folder that is made for it."`
	Lang   string `help:"Language: ${enum}." enum:"go,ts,rust,c,cpp,as" default:"go"`
	Module string `help:"Path of the Go module; default: example.com/NAME." placeholder:"PATH"`
	Source string `help:"Folder with the source of wfhost, for Go and a build that is no release." type:"path" placeholder:"DIR"`
}

// newName matches names that are valid for a workflow, a folder and a module.
var newName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func (c *newCmd) Run(g *globals) error {
	if !newName.MatchString(c.Name) || abi.CheckWorkflow(c.Name) != nil {
		return &exitCode{exitUsage, fmt.Errorf("the name must begin with a letter and have only a-z, 0-9 and -, got %q", c.Name)}
	}
	if c.Lang == "ts" {
		return c.typescript(g)
	}
	if _, ok := languages[c.Lang]; ok {
		return c.other(g)
	}
	version, source, err := sdk(c.Source)
	if err != nil {
		return err
	}
	module := c.Module
	if module == "" {
		module = "example.com/" + c.Name
	}
	if err := c.fill(map[string]string{"Name": c.Name, "Func": goName(c.Name), "Module": module, "SDK": modulePath,
		"Version": version, "Source": source}); err != nil {
		return err
	}
	if err := tidy(g.ctx, c.Name); err != nil {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: go mod tidy failed, so run it in %s before you build: %s\n", c.Name,
			indented(err.Error()))
	}
	_, err = fmt.Fprintf(g.io.out, "%s\n\n  cd %s\n  go test ./...\n  wfhost run . --skip-sleep --input '\"Ada\"'\n", c.Name, c.Name)
	return err
}

// typescript creates the folder of a TypeScript workflow. It copies the SDK both as the package that npm installs and to the
// place where npm install puts it, so that tests and editors work at once, without a network.
func (c *newCmd) typescript(g *globals) error {
	if c.Module != "" || c.Source != "" {
		return &exitCode{exitUsage, errors.New("--module and --source are for --lang go")}
	}
	name := goName(c.Name)
	data := map[string]string{"Name": c.Name, "Func": strings.ToLower(name[:1]) + name[1:], "SDK": modulePath}
	if err := c.fill(data); err != nil {
		return err
	}
	for _, to := range []string{"vendor/workflow", "node_modules/" + js.Package} {
		if err := os.CopyFS(filepath.Join(c.Name, filepath.FromSlash(to)), js.Files); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(g.io.out, "%s\n\n  cd %s\n  npm test\n  wfhost run . --skip-sleep --input '\"Ada\"'\n", c.Name, c.Name)
	return err
}

// fill creates the folder from the templates of the language. The folder must not exist.
func (c *newCmd) fill(data any) error {
	if err := os.Mkdir(c.Name, 0o755); errors.Is(err, os.ErrExist) {
		return &exitCode{exitConflict, fmt.Errorf("%s is there already: nothing was written", c.Name)}
	} else if err != nil {
		return err
	}
	root := path.Join("template", c.Lang)
	return fs.WalkDir(templates, root, func(from string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(from, root+"/"), ".tmpl")
		if to == "gitignore" { // a .gitignore among the templates would hide files of this repository
			to = ".gitignore"
		}
		to = filepath.Join(c.Name, filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return write(to, from, data)
	})
}

// write writes a file from a template. The file must not exist.
func write(path, from string, data any) error {
	t, err := template.ParseFS(templates, from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, data), f.Close())
}

// goName returns the name of the function of a workflow.
func goName(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// release matches the version of a release. Other versions cannot be downloaded.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// sdk returns the SDK version that a new module requires: this command's if it is a release, otherwise the folder of the
// source that replaces it.
func sdk(source string) (version, dir string, err error) {
	if v := buildVersion(); source == "" && release.MatchString(v) {
		return v, "", nil
	}
	if source != "" {
		if !holdsSDK(source) {
			return "", "", &exitCode{exitUsage, fmt.Errorf("--source must be a folder with the module %s, got %s", modulePath, source)}
		}
		return "v0.0.0", source, nil
	}
	dir, err = os.Getwd()
	for err == nil && !holdsSDK(dir) {
		if dir == filepath.Dir(dir) {
			return "", "", &exitCode{exitUsage, fmt.Errorf("wfhost %s is not a release, so its SDK cannot be downloaded. "+
				"Pass --source DIR, the folder with its source", buildVersion())}
		}
		dir = filepath.Dir(dir)
	}
	return "v0.0.0", dir, err
}

// holdsSDK reports whether a folder is the root of the SDK's module.
func holdsSDK(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(b), "module "+modulePath+"\n")
}

// tidy completes go.mod and writes go.sum.
func tidy(ctx context.Context, dir string) error {
	cmd := goCommand(ctx, dir, "mod", "tidy")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
