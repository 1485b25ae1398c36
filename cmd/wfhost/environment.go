package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/store"
)

// A named environment is a file with the flags that select a server and the identity for it. --env prod or WFHOST_ENV=prod
// uses it. It is complete: flags that it omits have their defaults and are not taken from shell variables, so that no token
// of another server is sent.

type envCmd struct {
	List   envListCmd   `cmd:"" help:"List the environments."`
	Set    envSetCmd    `cmd:"" help:"Make an environment of --server, --namespace, --token and so on, or replace it."`
	Remove envRemoveCmd `cmd:"" help:"Remove an environment."`
}

// environment is the contents of an environment file.
type environment struct {
	Name       string `json:"name"`
	Server     string `json:"server"`
	Namespace  string `json:"namespace,omitempty"`
	Token      string `json:"-"`
	TokenFile  string `json:"token_file,omitempty"`
	CA         string `json:"ca,omitempty"`
	ClientCert string `json:"client_cert,omitempty"`
	ClientKey  string `json:"client_key,omitempty"`
	File       string `json:"file"`
	HasToken   bool   `json:"token"` // in the file itself
}

// environmentField is a field of an environment that is stored in its file.
type environmentField struct {
	name string // of the flag
	to   *string
	path bool
}

func (e *environment) fields() []environmentField {
	return []environmentField{{"server", &e.Server, false}, {"namespace", &e.Namespace, false}, {"token", &e.Token, false},
		{"token-file", &e.TokenFile, true}, {"ca", &e.CA, true}, {"client-cert", &e.ClientCert, true},
		{"client-key", &e.ClientKey, true}}
}

// environmentName matches valid names of environments, which are file names.
var environmentName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// environmentsDir returns the folder of the environment files.
func environmentsDir() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "wfhost", "environments"), err
}

func environmentFile(name string) (string, error) {
	if !environmentName.MatchString(name) {
		return "", fmt.Errorf("the name of an environment must have 1 to 63 of a-z, 0-9 and -, got %q", name)
	}
	dir, err := environmentsDir()
	return filepath.Join(dir, name+".yaml"), err
}

// readEnvironment reads an environment.
func readEnvironment(name string) (*environment, error) {
	path, err := environmentFile(name)
	if err != nil {
		return nil, err
	}
	members, err := configMembers(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no environment %q; there are: %s", name, strings.Join(environmentNames(), ", "))
	}
	e := &environment{Name: name, File: path}
	for _, m := range members {
		i := slices.IndexFunc(e.fields(), func(f environmentField) bool { return f.name == m.Key })
		if i < 0 {
			return nil, fmt.Errorf("%s: line %d: %q is none of server, namespace, token, token-file, ca, client-cert and client-key", path,
				m.Value.Line, m.Key)
		}
		f := e.fields()[i]
		*f.to = m.Value.Text
		if f.path && *f.to != "" && !filepath.IsAbs(*f.to) {
			*f.to = filepath.Join(filepath.Dir(path), *f.to)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case e.Server == "":
		return nil, fmt.Errorf("%s: it names no server", path)
	case e.Token != "" && e.TokenFile != "":
		return nil, fmt.Errorf("%s: it has a token and a token-file", path)
	}
	e.HasToken = e.Token != ""
	return e, e.checkMode()
}

// checkMode refuses a file with a token if other users may read it.
func (e *environment) checkMode() error {
	if !e.HasToken || runtime.GOOS == "windows" {
		return nil
	}
	st, err := os.Stat(e.File)
	if err != nil {
		return err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has a token, and others may read it (mode %04o): chmod 600 it, and revoke the token if others could "+
			"log in", e.File, st.Mode().Perm())
	}
	return nil
}

// environmentNames returns the names of all environments.
func environmentNames() []string {
	names := []string{}
	dir, err := environmentsDir()
	if err != nil {
		return names
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return names
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && environmentName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// useEnvironment sets the flags that are not on the command line from the environment named by --env or WFHOST_ENV.
func (g *globals) useEnvironment(k *kong.Context) error {
	given := map[string]bool{}
	for _, p := range k.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag.Name] = true
		}
	}
	for name, v := range map[string]*string{"server": &g.Server, "namespace": &g.Namespace} {
		if *v == "" && !given[name] { // an empty variable counts as unset
			*v = defaultOf(k, name)
		}
	}
	switch {
	case g.Env == "" || strings.HasPrefix(k.Command(), "env "):
		return nil
	case given["env"] && given["server"]:
		return errors.New("--env and --server exclude each other: the environment names its server")
	case given["server"]: // and the environment was named by the shell
		g.Env = ""
		return nil
	case !given["env"] && os.Getenv("WFHOST_SERVER") != "":
		return errors.New("WFHOST_ENV and WFHOST_SERVER exclude each other: the environment names its server")
	}
	e, err := readEnvironment(g.Env)
	if err != nil {
		return err
	}
	if e.Namespace == "" {
		e.Namespace = store.DefaultNamespace
	}
	if given["token"] || given["token-file"] {
		e.Token, e.TokenFile = g.Token, g.TokenFile
	}
	flags := map[string]*string{"server": &g.Server, "namespace": &g.Namespace, "token": &g.Token, "token-file": &g.TokenFile,
		"ca": &g.CA, "client-cert": &g.ClientCert, "client-key": &g.ClientKey}
	for _, f := range e.fields() {
		if !given[f.name] {
			*flags[f.name] = *f.to
		}
	}
	return nil
}

// defaultOf returns the default of a global flag.
func defaultOf(k *kong.Context, name string) string {
	for _, f := range k.Model.Flags {
		if f.Name == name {
			return f.Default
		}
	}
	return ""
}

type envListCmd struct{}

// Run lists the environments. For an invalid file it reports the error.
func (c *envListCmd) Run(g *globals) error {
	list, rows := []*environment{}, [][]string{}
	var faults []error
	for _, name := range environmentNames() {
		e, err := readEnvironment(name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		list = append(list, e)
		token := "-"
		switch {
		case e.HasToken:
			token = "in " + filepath.Base(e.File)
		case e.TokenFile != "":
			token = e.TokenFile
		}
		rows = append(rows, []string{name, e.Server, e.Namespace, token})
	}
	var err error
	switch g.Format {
	case "json":
		err = g.json(list)
	case "ids":
		for _, e := range list {
			_, _ = fmt.Fprintln(g.io.out, e.Name)
		}
	default:
		err = g.table("name\tserver\tnamespace\ttoken", rows)
	}
	return errors.Join(append(faults, err)...)
}

type envSetCmd struct {
	Name string `arg:"" help:"Name of the environment, such as prod."`
}

// Run writes the file of an environment. Only its owner may read the file, since it may contain a token.
func (c *envSetCmd) Run(g *globals, k *kong.Context) error {
	path, err := environmentFile(c.Name)
	if err != nil {
		return &exitCode{exitUsage, err}
	}
	if !slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "server" && !p.Resolved }) {
		return &exitCode{exitUsage, errors.New("an environment is of a server: give --server")}
	}
	if g.Token != "" && g.TokenFile != "" {
		return &exitCode{exitUsage, errors.New("--token and --token-file cannot both be given")}
	}
	e := environment{Server: g.Server, Namespace: g.Namespace, Token: g.Token, TokenFile: g.TokenFile, CA: g.CA,
		ClientCert: g.ClientCert, ClientKey: g.ClientKey}
	var text strings.Builder
	fmt.Fprintf(&text, "# wfhost --env %s\n", c.Name)
	for _, f := range e.fields() {
		if *f.to == "" {
			continue
		}
		quoted, err := json.Marshal(*f.to) // JSON is YAML
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s: %s\n", f.name, quoted)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := writeSecret(path, text.String()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.io.out, path)
	return err
}

type envRemoveCmd struct {
	Name string `arg:"" help:"Name of the environment."`
}

func (c *envRemoveCmd) Run(*globals) error {
	path, err := environmentFile(c.Name)
	if err != nil {
		return &exitCode{exitUsage, err}
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &exitCode{exitNotFound, fmt.Errorf("there is no environment %q", c.Name)}
	}
	return err
}
