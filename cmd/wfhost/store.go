package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/postgres"
)

// database is the address of a database, or a source that has it.
type database string

// address returns the address. Its errors never contain it, since it may have a password.
func (d database) address(g *globals) (string, error) {
	url, err := d.url(g)
	if err != nil {
		return "", fmt.Errorf("--store: %w", err)
	}
	return url, nil
}

// url is address for any flag.
func (d database) url(g *globals) (string, error) {
	text := string(d)
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		b, err := source(text).read(g.ctx, g.io.err)
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(string(b))
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return "", errors.New("it must be postgres://USER@HOST/DATABASE, or a source that has it: file:PATH, env:NAME or " +
			"command:PROGRAM")
	}
	return text, nil
}

// storeFlags choose the store of a server.
type storeFlags struct {
	Store       database `help:"PostgreSQL for the data, or a source of its URL." env:"WFHOST_STORE" placeholder:"URL"`
	StoreUnsafe bool     `help:"Use a database that may lose data when it crashes, as with fsync off."`
}

// open opens the host of a configuration, in its folder or in the database. close closes both, and is nil after an error.
func (f *storeFlags) open(g *globals, cfg host.Config) (h *host.Host, where string, shut func() error, err error) {
	if f.Store == "" {
		h, err = openPatiently(g.ctx, cfg)
		if err != nil {
			return nil, "", nil, err
		}
		return h, cfg.Dir, h.Close, nil
	}
	url, err := f.Store.address(g)
	if err != nil {
		return nil, "", nil, err
	}
	var s *postgres.Store
	err = patiently(g.ctx, func(ctx context.Context) error {
		s, err = postgres.Open(ctx, url, postgres.Options{Migrate: true, Unsafe: f.StoreUnsafe,
			Shared: cfg.Cluster != nil,
			Away:   func(cause error) { cfg.Logger.Warn("the database cannot be reached", "cause", cause) },
			NowMs:  func() int64 { return g.now().UnixMilli() }})
		return err
	})
	if err != nil {
		return nil, "", nil, fmt.Errorf("--store: %w", err)
	}
	if f.StoreUnsafe {
		cfg.Logger.Warn("--store-unsafe: a crash of the database may lose what it has acknowledged")
	}
	cfg.Store = s
	h, err = host.Open(g.ctx, cfg)
	if err != nil {
		return nil, "", nil, errors.Join(err, s.Close())
	}
	return h, s.Place(), func() error { return errors.Join(h.Close(), s.Close()) }, nil
}

type storeCmd struct {
	Init   storeInitCmd   `cmd:"" help:"Create the tables of a database, or raise them to this release."`
	Check  storeCheckCmd  `cmd:"" help:"Say whether a server can use a database, and what a failover of it may lose."`
	Copy   storeCopyCmd   `cmd:"" help:"Move all data from a folder into a database, or back. No server may use either of them."`
	Reopen storeReopenCmd `cmd:"" help:"Let servers use data again that was moved away, or that is a copy."`
}

type storeInitCmd struct {
	Store database `help:"As for serve." env:"WFHOST_STORE" placeholder:"URL"`
	Print bool     `help:"Print the SQL for a new database, and do nothing."`
}

func (c *storeInitCmd) Run(g *globals) error {
	if c.Print {
		text, err := postgres.Script()
		if err == nil {
			_, err = fmt.Fprint(g.io.out, text)
		}
		return err
	}
	return c.Store.report(g, postgres.Init)
}

type storeCheckCmd struct {
	Store database `help:"As for serve." env:"WFHOST_STORE" placeholder:"URL"`
}

func (c *storeCheckCmd) Run(g *globals) error { return c.Store.report(g, postgres.Check) }

// report prints what do says of the database. It returns an error if a server would refuse the database.
func (d database) report(g *globals, do func(context.Context, string) (postgres.Report, error)) error {
	if d == "" {
		return errors.New("--store is missing: postgres://USER@HOST/DATABASE, or a source that has it")
	}
	url, err := d.address(g)
	if err != nil {
		return err
	}
	r, err := do(g.ctx, url)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	if g.Format == "json" {
		if err := g.json(r); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		fmt.Fprintf(&b, "%s: PostgreSQL %s, schema %d of %d\n", r.Place, r.Server, r.Schema, r.Wants)
		for _, w := range r.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", w)
		}
		if _, err := fmt.Fprint(g.io.out, b.String()); err != nil {
			return err
		}
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("a server would not start with it: %s", strings.Join(r.Problems, "; "))
	}
	return nil
}
