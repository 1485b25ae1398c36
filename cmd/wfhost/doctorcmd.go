package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
)

type doctorCmd struct {
	Data     string        `help:"Folder with data; default: as of serve, if it is there." placeholder:"DIR"`
	Config   string        `help:"File with flags of serve: the server's folder and budgets." type:"path" placeholder:"FILE"`
	For      time.Duration `help:"How long fsyncs of the disk are measured." default:"2s"`
	NoServer bool          `help:"Do not ask the server."`
}

// Run checks the machine, the data and the server. It exits with exitError if a check fails, and with exitWarning if there
// are only warnings.
func (c *doctorCmd) Run(g *globals, k *kong.Context) error {
	if c.For <= 0 || c.For > time.Hour {
		return &exitCode{exitUsage, fmt.Errorf("--for must be more than nothing and at most 1h, got %v", c.For)}
	}
	serve, err := c.settings(g)
	if err != nil {
		return &exitCode{exitUsage, err}
	}
	named := c.Data != "" || c.Config != "" || os.Getenv("WFHOST_DATA") != ""
	data := serve.Data
	if _, err := os.Stat(data); err != nil && !named {
		data = ""
	}
	database := serve.Store.check(g, serve.StoreUnsafe)
	budgets := doctor.Budgets{GuestBytes: serve.GuestBytes, ParkBytes: serve.ParkBytes, PoolBytes: serve.PoolBytes,
		WarmBytes: serve.WarmBytes, JournalBytes: serve.JournalBytes, ModuleBytes: serve.ModuleBytes,
		MaxConnections: serve.MaxConnections, DiskReserve: serve.reserve()}
	r := doctor.Run(g.ctx, doctor.Config{Data: data, Store: database, Fsync: c.For, Budgets: budgets})
	if g.ctx.Err() != nil {
		return g.ctx.Err()
	}
	r.Add(ownBuild())
	if !c.NoServer {
		if c.Config != "" && !g.serverNamed(k) {
			g.serverOf(serve)
		}
		// A server that was not named is expected if the data is open, or if there is nothing else to check.
		open := slices.ContainsFunc(r.Checks, func(c doctor.Check) bool { return c.Values["open"] == true })
		r.Add(g.askServer(g.serverNamed(k) || open || data == "" && serve.Store == "")...)
	}
	return errors.Join(g.printReport(r), verdict(r))
}

// serverOf selects the server that serve would start with these flags on this machine: its address, its certificate and the
// token in its data.
func (g *globals) serverOf(serve *serveCmd) {
	host, port, err := net.SplitHostPort(serve.Listen)
	if err != nil {
		return // serve.check has refused it
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	g.Server = "http://" + net.JoinHostPort(host, port)
	if serve.TLSCert != "" {
		g.Server, g.pinned = "https"+strings.TrimPrefix(g.Server, "http"), serve.TLSCert
	}
	if t, err := g.givenToken(); t == "" && err == nil {
		token := filepath.Join(serve.Data, "token")
		if _, err := readSmall(token); err == nil {
			g.TokenFile = token
		}
	}
}

// verdict returns the error that the command ends with, nil if all checks passed.
func verdict(r *doctor.Report) error {
	if bad := r.Named(doctor.Fail); len(bad) > 0 {
		return &exitCode{exitError, fmt.Errorf("not well: %s", strings.Join(bad, ", "))}
	}
	if odd := r.Named(doctor.Warn); len(odd) > 0 {
		return &exitCode{exitWarning, fmt.Errorf("no check failed; %s: %s", plural(len(odd), "warning"), strings.Join(odd, ", "))}
	}
	return nil
}

// settings returns the settings that serve would use with the same file, folder and environment.
func (c *doctorCmd) settings(g *globals) (*serveCmd, error) {
	parser, root, err := newParser(g.io, func(int) {})
	if err != nil {
		return nil, err
	}
	args := []string{"serve"}
	if c.Config != "" {
		args = append(args, "--config="+c.Config)
	}
	if c.Data != "" {
		args = append(args, "--data="+c.Data)
	}
	if _, err := parser.Parse(args); err != nil {
		return nil, err
	}
	return &root.Serve, root.Serve.check()
}

// serverNamed reports whether the user has named a server.
func (g *globals) serverNamed(k *kong.Context) bool {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Name == "server" && !p.Resolved {
			return true
		}
	}
	return g.Env != "" || os.Getenv("WFHOST_SERVER") != ""
}

// printReport prints a report. In the table form, advice follows below the table.
func (g *globals) printReport(r *doctor.Report) error {
	switch g.Format {
	case "json":
		return g.json(r)
	case "ids": // names of failed checks and warnings
		_, err := fmt.Fprint(g.io.out, lines(append(r.Named(doctor.Fail), r.Named(doctor.Warn)...)))
		return err
	}
	rows, advice := [][]string{}, []string{}
	for _, c := range r.Checks {
		rows = append(rows, []string{c.Name, string(c.Status), oneLine(c.Found)})
		if c.Advice != "" && (c.Status == doctor.Fail || c.Status == doctor.Warn) {
			advice = append(advice, fmt.Sprintf("%s: %s: %s", c.Status, c.Name, oneLine(c.Found)), "  "+oneLine(c.Advice))
		}
	}
	err := g.table("check\tstatus\tfound", rows)
	if len(advice) > 0 {
		_, more := fmt.Fprint(g.io.out, "\n"+lines(advice))
		err = errors.Join(err, more)
	}
	return err
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
