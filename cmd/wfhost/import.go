package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
)

type importCmd struct {
	File   string `arg:"" help:"File with an exported run, - for standard input."`
	Adopt  bool   `help:"The run goes on here from where it was exported with --move; without it, it is a copy to look at."`
	Paused bool   `help:"With --adopt: it is paused at first, so that its version can be given grants."`
	Force  bool   `help:"With --adopt: also a live run that was not moved. It acts twice, unless the other one is gone."`
	Data   string `help:"Folder of a server that does not run; else the server is asked." aliases:"dir"`

	EncryptionKeys source `help:"Keys of encrypted data, with --data." env:"WFHOST_ENCRYPTION_KEYS" placeholder:"SOURCE"`
}

func (c *importCmd) Run(g *globals) (err error) {
	if !c.Adopt && (c.Paused || c.Force) {
		return &exitCode{exitUsage, errors.New("--paused and --force are for --adopt")}
	}
	in := g.io.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return absent(err)
		}
		defer func() { _ = f.Close() }() // the file was only read
		in = f
	}
	var r host.Run
	if c.Data != "" {
		r, err = c.local(g, in)
	} else {
		r, err = c.remote(g, in)
	}
	if err != nil {
		return err
	}
	if r.Existed {
		_, _ = fmt.Fprintf(g.io.err, "%s came before, and is as it is\n", oneLine(r.ID))
	}
	return g.showRun(r)
}

// remote imports the run into the server.
func (c *importCmd) remote(g *globals, in io.Reader) (r host.Run, err error) {
	api, err := g.api()
	if err != nil {
		return r, err
	}
	o := client.ImportOptions{Adopt: c.Adopt, Paused: c.Paused, Force: c.Force}
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() { // the server can derive a time limit from the length
			o.Length = st.Size()
		}
	}
	imported, err := api.Import(g.ctx, in, o)
	if err != nil {
		return r, g.unreachable(g.ctx, err)
	}
	b, err := encoded(imported)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// local imports the run into data that no server has open. No run executes there.
func (c *importCmd) local(g *globals, in io.Reader) (r host.Run, err error) {
	codec, err := c.EncryptionKeys.keyring(g)
	if err != nil {
		return r, err
	}
	if _, err := os.Stat(c.Data); err != nil { // do not create a misspelt folder
		return r, err
	}
	h, err := host.Open(g.ctx, host.Config{Dir: c.Data, Clock: g.io.clock, Compiler: host.SelfCompiler(), Codec: codec})
	if errors.Is(err, host.ErrLocked) {
		return r, fmt.Errorf("%w: leave --data out to ask the server", err)
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	n, err := h.Namespace(g.ctx, g.Namespace)
	if err != nil {
		return r, err
	}
	r, err = n.Import(g.ctx, in, host.ImportOptions{Adopt: c.Adopt, Paused: c.Paused, Force: c.Force})
	if e, ok := errors.AsType[*host.ElsewhereError](err); ok { // the caller has access to all data anyway
		err = fmt.Errorf("%w: %s", host.ErrConflict, e.Detail())
	}
	return r, err
}
