package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/transfer"
)

// storeSide is where data is: a folder, or the address of a database or a source of it.
type storeSide string

// database returns the address of a database, "" for a folder.
func (s storeSide) database(g *globals) (string, error) {
	text := string(s)
	scheme, _, has := strings.Cut(text, ":")
	switch {
	case text == "":
		return "", &exitCode{exitUsage, errors.New("it is missing: a folder, postgres://USER@HOST/DATABASE, or a source that has it")}
	case has && (scheme == "postgres" || scheme == "postgresql" || scheme == "file" || scheme == "env" || scheme == "command"):
		return database(text).url(g)
	case strings.Contains(text, "://"):
		return "", &exitCode{exitUsage, errors.New("it must be a folder, postgres://USER@HOST/DATABASE, or a source that has it")}
	}
	return "", nil
}

// open opens one side of a copy. A server that was killed holds a database for a few seconds.
func (s storeSide) open(g *globals, opts postgres.TransferOptions) (side transfer.Store, err error) {
	url, err := s.database(g)
	if err != nil {
		return nil, err
	}
	err = patiently(g.ctx, func(ctx context.Context) error {
		if url == "" {
			side, err = host.OpenTransfer(string(s), opts.Target)
			return err
		}
		side, err = postgres.OpenTransfer(ctx, url, opts)
		return err
	})
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, &exitCode{exitConflict, fmt.Errorf("%w; end the server that uses it, and then copy", err)}
	case err != nil:
		return nil, absent(err)
	}
	return side, nil
}

type storeCopyCmd struct {
	From        storeSide `help:"Folder with the data, or the database as for serve." placeholder:"SOURCE"`
	To          storeSide `help:"Folder or database for the data, which must not hold any yet." placeholder:"TARGET"`
	KeepSource  bool      `help:"Leave a database as it is, also while a server uses it. The folder becomes a copy, a backup."`
	StoreUnsafe bool      `help:"As for serve."`
}

func (c *storeCopyCmd) Run(g *globals) (err error) {
	url, err := c.From.database(g)
	if err != nil {
		return fmt.Errorf("--from: %w", absent(err))
	}
	other, err := c.To.database(g)
	switch {
	case err != nil:
		return fmt.Errorf("--to: %w", absent(err))
	case c.From == c.To || url != "" && url == other:
		return &exitCode{exitUsage, fmt.Errorf("--from and --to are the same")}
	case c.KeepSource && (url == "" || other != ""):
		return &exitCode{exitUsage, errors.New("--keep-source copies a database into a folder; for data in a folder, see " +
			"wfhost backup")}
	}
	from, err := c.From.open(g, postgres.TransferOptions{Live: c.KeepSource, Unsafe: c.StoreUnsafe})
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := c.To.open(g, postgres.TransferOptions{Target: true, Unsafe: c.StoreUnsafe})
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	out := &copyPrinter{g: g}
	r, err := transfer.Copy(g.ctx, from, to, transfer.Options{Keep: c.KeepSource, Progress: out.progress})
	out.clear()
	switch {
	case errors.Is(err, transfer.ErrOccupied), errors.Is(err, transfer.ErrMoved), errors.Is(err, transfer.ErrIncomplete):
		return &exitCode{exitConflict, err}
	case err != nil:
		return err
	}
	return out.end(r)
}

// copyPrinter prints how a copy goes, on a terminal, and what was copied.
type copyPrinter struct {
	g     *globals
	shown time.Time
}

func (p *copyPrinter) progress(step transfer.Step, records int64) {
	if !terminal(p.g.io.err) || time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	_, _ = fmt.Fprintf(p.g.io.err, "\r\x1b[K%s %s", plural(records, "record"), step)
}

// clear erases the progress line.
func (p *copyPrinter) clear() {
	if !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.g.io.err, "\r\x1b[K")
	}
}

func (p *copyPrinter) end(r *transfer.Report) error {
	if p.g.Format == "json" {
		return p.g.json(r)
	}
	var b strings.Builder
	for _, k := range r.Kinds {
		fmt.Fprintf(&b, "%s: %d, %s\n", k.Kind, k.Records, plural(k.Bytes, "byte"))
	}
	switch {
	case r.Kept:
		fmt.Fprintf(&b, "copied %s into %s, and compared: nothing runs in the copy until `wfhost copy release`\n", r.From, r.To)
	case len(r.Kinds) == 0:
		fmt.Fprintf(&b, "completed the move of %s to %s\n", r.From, r.To)
	default:
		fmt.Fprintf(&b, "moved %s to %s, and compared: servers refuse %s from now on\n", r.From, r.To, r.From)
	}
	_, err := fmt.Fprint(p.g.io.out, printable(b.String()))
	return err
}

type storeReopenCmd struct {
	Store       storeSide `help:"Folder with the data, or the database as for serve." placeholder:"STORE"`
	StoreUnsafe bool      `help:"As for serve."`
}

func (c *storeReopenCmd) Run(g *globals) (err error) {
	side, err := c.Store.open(g, postgres.TransferOptions{Unsafe: c.StoreUnsafe})
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	defer func() { err = errors.Join(err, side.Close()) }()
	other, err := transfer.Reopen(g.ctx, side)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("servers can use %s again. Make sure that none ever uses its original", side.Place())
	if other != "" {
		text = fmt.Sprintf("servers can use %s again, as it was before the move. Make sure that none ever uses %s", side.Place(), other)
	}
	if g.Format == "json" {
		return g.json(map[string]string{"store": side.Place(), "other": other})
	}
	_, err = fmt.Fprintln(g.io.out, printable(text))
	return err
}
