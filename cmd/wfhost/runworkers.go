package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/host"
)

// workerFlags make run listen for workers, as serve does.
type workerFlags struct {
	WorkerHandler []string `sep:"none" help:"Handler whose steps workers take from this process; repeatable." placeholder:"NAME"`
	Listen        string   `help:"Loopback address on which workers reach it." env:"WFHOST_LISTEN" default:"127.0.0.1:7777"`
}

// checkWorkers refuses flags that do not work with workers.
func (f *workerFlags) checkWorkers(skipSleep bool) error {
	if len(f.WorkerHandler) == 0 {
		return nil
	}
	if skipSleep {
		return errors.New("--skip-sleep jumps to the next deadline, and would take attempts from the workers of --worker-handler " +
			"before they are done: leave out one of both")
	}
	name, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return fmt.Errorf("--listen must be an address and a port, got %q", f.Listen)
	}
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen of run must be a loopback address, got %q: for workers elsewhere there is serve, which has TLS",
			f.Listen)
	}
	return nil
}

// work runs the host until the context is done, with the server's API if workers perform any handlers.
func (c *runCmd) work(g globals, h *host.Host, dir string) error {
	if len(c.WorkerHandler) == 0 {
		return h.Run(g.ctx)
	}
	var s serveCmd
	if err := kong.ApplyDefaults(&s, flagTypes()...); err != nil {
		return err
	}
	s.Data, s.Listen, s.Drain = dir, c.Listen, c.Drain
	g.io.out = g.io.err // standard output is only for the result
	if c.Quiet {
		g.io.out = io.Discard
	}
	logger := slog.New(slog.NewTextHandler(g.io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	f, err := s.newFront(g.ctx, logger)
	if err != nil {
		return err
	}
	defer f.close()
	return s.open(&g, h, dir, measures{}, f, logger)
}
