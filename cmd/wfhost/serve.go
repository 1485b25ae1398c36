package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/wfhost/wfhost/cmd/wfhost/server"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/steps/httpstep"
)

type serveCmd struct {
	Data     string        `help:"Folder for the data." default:"data"`
	Listen   string        `help:"Loopback address to listen on." env:"WFHOST_LISTEN" default:"127.0.0.1:7777"`
	Secrets  string        `help:"File with secrets as a JSON object of strings; it is read again for each use." type:"path"`
	Drain    time.Duration `help:"How long SIGTERM waits for steps that are going on; 0 does not wait." default:"10s"`
	LogLevel slog.Level    `help:"debug, info, warn or error." default:"info"`

	MaxInstances  int           `help:"Guests that compute at a time, each with at most 64 MiB." default:"16"`
	PoolBytes     int64         `help:"Memory of idle instances that are kept to be used again; 0 keeps none." default:"67108864"`
	ParkBytes     int64         `help:"Memory of instances that wait for a commit or a step; 0 keeps none." default:"134217728"`
	WarmBytes     int64         `help:"Memory of guests that sleep, for wakes without a replay; 0 keeps none." default:"67108864"`
	ModuleIdle    time.Duration `help:"How long after its last use a module leaves memory; 0: never." default:"30s"`
	ModuleBytes   int64         `help:"Memory of modules that are not in use." default:"268435456"`
	CompileCPU    time.Duration `name:"compile-cpu" help:"CPU time that compiling a module may take." default:"1m"`
	CompileTime   time.Duration `help:"Time that it may take." default:"2m"`
	CompileMemory int64         `help:"Memory that it may take." default:"2147483648"`
	InstanceReset string        `help:"How instances are made new: ${enum}." enum:"auto,scan,drop,copy,none" default:"auto"`
}

// headerTimeout bounds the time in which a client sends the head of a request.
const headerTimeout = 10 * time.Second

// The least limits of a compiler: less than a program of this size takes to start would refuse all modules.
const (
	leastCompileTime  = time.Second
	leastCompileBytes = 64 << 20
)

// checkMemory refuses limits that cannot be.
func (c *serveCmd) checkMemory() error {
	switch {
	case c.MaxInstances < 1:
		return fmt.Errorf("--max-instances must be at least 1, got %d", c.MaxInstances)
	case c.PoolBytes < 0:
		return fmt.Errorf("--pool-bytes must not be negative, got %d", c.PoolBytes)
	case c.ParkBytes < 0:
		return fmt.Errorf("--park-bytes must not be negative, got %d", c.ParkBytes)
	case c.ModuleIdle < 0:
		return fmt.Errorf("--module-idle must not be negative, got %v", c.ModuleIdle)
	case c.ModuleBytes < 0:
		return fmt.Errorf("--module-bytes must not be negative, got %d", c.ModuleBytes)
	case c.CompileCPU < leastCompileTime || c.CompileTime < leastCompileTime:
		return fmt.Errorf("--compile-cpu and --compile-time must be at least %v, got %v and %v", leastCompileTime, c.CompileCPU,
			c.CompileTime)
	case c.CompileMemory < leastCompileBytes:
		return fmt.Errorf("--compile-memory must be at least %d, got %d", leastCompileBytes, c.CompileMemory)
	case c.WarmBytes < 0:
		return fmt.Errorf("--warm-bytes must not be negative, got %d", c.WarmBytes)
	}
	return nil
}

// drainOf returns the host's Config.Drain for a flag: there, 0 is the default, and not nothing.
func drainOf(flag time.Duration) time.Duration {
	if flag <= 0 {
		return -1
	}
	return flag
}

// orNone gives what a host takes for a limit on the command line: there, nothing is nothing, and not the default.
func orNone[T int64 | time.Duration](limit T) T {
	if limit == 0 {
		return -1
	}
	return limit
}

func (c *serveCmd) Run(g *globals) error {
	if err := errors.Join(loopback(c.Listen), checkSecrets(c.Secrets), c.checkMemory()); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(g.io.err, &slog.HandlerOptions{Level: c.LogLevel}))
	h, err := openPatiently(g.ctx, host.Config{Dir: c.Data, Logger: logger, Secrets: secretsFrom(c.Secrets),
		Drain: drainOf(c.Drain), MaxInstances: c.MaxInstances, PoolBytes: orNone(c.PoolBytes),
		ParkBytes: orNone(c.ParkBytes), WarmBytes: orNone(c.WarmBytes), InstanceReset: c.InstanceReset,
		ModuleIdle: orNone(c.ModuleIdle), ModuleBytes: orNone(c.ModuleBytes), Compiler: host.SelfCompiler(),
		CompileLimits: host.CompileLimits{CPU: c.CompileCPU, Wall: c.CompileTime, Memory: c.CompileMemory}})
	if err != nil {
		return err
	}
	httpstep.Register(h)
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return errors.Join(err, h.Close())
	}
	_, _ = fmt.Fprintf(g.io.out, "wfhost serves http://%s from %s\n", l.Addr(), c.Data)
	return errors.Join(c.serve(g.ctx, h, l, logger), h.Close())
}

// shutdownTime bounds how long answers take that are being written when the host has stopped.
const shutdownTime = time.Second

// serve answers requests and runs the host until ctx is done. Then it answers what only reads, lets the attempts of steps
// that are going on finish within the time of --drain, and returns when what came of them is durable.
func (c *serveCmd) serve(ctx context.Context, h *host.Host, l net.Listener, logger *slog.Logger) (err error) {
	api := server.New(h)
	held, release := context.WithCancel(context.Background()) // of requests that wait for something
	defer release()
	srv := &http.Server{Handler: api, ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return held }}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	go func() { served <- srv.Serve(l) }()
	select {
	case <-ctx.Done():
		logger.Info("draining", "at most", c.Drain)
	case err = <-ran: // the store has failed
		ran <- nil
	case err = <-served:
	}
	api.Drain()
	stop()
	err = errors.Join(err, <-ran)
	release()
	wait, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if late := srv.Shutdown(wait); late != nil { // a client that does not read
		logger.Warn("connections were cut", "cause", late)
		_ = srv.Close() // nothing is left to be said to them
	}
	logger.Info("ended")
	return err
}

// lockPatience is how long a start waits for the data to be free: a process that was just killed still has it.
const lockPatience = 5 * time.Second

// openPatiently opens a host whose data another process may be about to let go of.
func openPatiently(ctx context.Context, cfg host.Config) (*host.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		h, err := host.Open(ctx, cfg)
		if !errors.Is(err, host.ErrLocked) {
			return h, err
		}
		select {
		case <-time.After(lockPatience / 100):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// loopback refuses addresses that others can reach: the API has no authentication yet.
func loopback(address string) error {
	hostname, _, err := net.SplitHostPort(address)
	if err != nil {
		return &exitCode{exitUsage, fmt.Errorf("--listen must be an address and a port, got %q", address)}
	}
	if ip := net.ParseIP(hostname); hostname != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &exitCode{exitUsage, fmt.Errorf(
			"--listen must be a loopback address, since this release has no tokens; got %q", address)}
	}
	return nil
}

// secretsFrom reads secrets from a file, each time one is needed, so that they can be changed.
func secretsFrom(path string) func(string) (string, bool) {
	if path == "" {
		return nil
	}
	return func(name string) (string, bool) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", false
		}
		var secrets map[string]string
		if err := json.Unmarshal(b, &secrets); err != nil {
			return "", false
		}
		v, ok := secrets[name]
		return v, ok
	}
}

// checkSecrets says what is wrong with a file of secrets, without saying what is in it.
func checkSecrets(path string) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	var secrets map[string]string
	if json.Unmarshal(b, &secrets) != nil {
		return fmt.Errorf("secrets: %s is no JSON object of strings", path)
	}
	return nil
}
