package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/page"
	"github.com/wfhost/wfhost/store"
)

type serveCmd struct {
	Config configFile `help:"File with flags of serve by their names, in YAML or JSON." type:"path" placeholder:"FILE"`
	Data   string     `help:"Folder for the data." default:"data"`
	storeFlags
	clusterFlags
	Listen   string        `help:"Address to listen on; others than loopback need TLS." env:"WFHOST_LISTEN" default:"127.0.0.1:7777"`
	Secrets  source        `help:"Secrets as a JSON object: file:PATH, env:NAME or command:PROGRAM." placeholder:"SOURCE"`
	Drain    time.Duration `help:"How long SIGTERM waits for steps that are going on; 0 does not wait." default:"10s"`
	LogLevel slog.Level    `help:"debug, info, warn or error." default:"info"`

	handlerFlags
	WorkerHandler []string `sep:"none" help:"Handler whose steps workers take from this server; repeatable." placeholder:"NAME"`

	EncryptionKeys source `help:"Keys that encrypt payloads, a source too." env:"WFHOST_ENCRYPTION_KEYS" placeholder:"SOURCE"`
	// A pointer, because 0 means no reserve and the default depends on the disk.
	DiskReserve *int64 `help:"Disk kept for runs that are there; 0: none. Default: 256MiB, or a tenth of a small disk." type:"bytes"`

	Interpreter string `help:"Module of the interpreter of definitions; default: as of define." type:"path" placeholder:"FILE"`

	NoMetrics bool `help:"Measure nothing: there is no /metrics."`
	traceFlags
	MetricsListen string `help:"Another address for /metrics, without a token: of loopback, or with --client-ca." placeholder:"ADDR"`

	NoPage      bool     `help:"Do not serve the web page."`
	NoToken     bool     `help:"Let every program on this machine do everything, without a token."`
	Hosts       []string `name:"host" help:"Name under which the server is called, beside localhost; repeatable." placeholder:"NAME"`
	AllowOrigin []string `help:"Origin of web pages that may call it; repeatable." placeholder:"https://HOST"`
	BehindProxy bool     `help:"A proxy in front of it has TLS and sets X-Forwarded-For."`
	TLSCert     string   `name:"tls-cert" help:"File with the certificate; read again when it changes." type:"path"`
	TLSKey      string   `name:"tls-key" help:"File with its key." type:"path"`
	ClientCA    string   `name:"client-ca" help:"File with authorities of clients' certificates: clients need one then." type:"path"`

	Rate           float64 `help:"Requests a second of one caller, twice as many at once; 0: any number." default:"1000"`
	MaxStreams     int     `help:"Clients that follow output at a time." default:"1000"`
	MaxConnections int     `help:"Connections at a time." default:"4096"`

	MaxInstances       int   `help:"Guests that compute at a time, each with at most 64 MiB." default:"16"`
	MaxRuns            int64 `help:"Live runs of a namespace that has no quota; 0: any number." default:"10000000"`
	MaxCallsPerHandler int   `help:"Calls of one handler at a time." default:"64"`
	MaxCalls           int   `help:"Calls of all handlers at a time." default:"1024"`
	MaxChildren        int   `help:"Live children of one run; half as many with each level below." default:"1000"`

	GuestBytes    int64         `help:"Memory of all guests; at least 128MiB." default:"160MiB" type:"bytes"`
	PoolBytes     int64         `help:"Memory of idle instances, to be used again; 0 keeps none." default:"32MiB" type:"bytes"`
	ParkBytes     int64         `help:"Memory of instances that wait for a step; 0 keeps none." default:"128MiB" type:"bytes"`
	WarmBytes     int64         `help:"Memory of sleeping guests, to wake them at once; 0 keeps none." default:"64MiB" type:"bytes"`
	JournalBytes  int64         `help:"Memory of journals of runs that go on; more of them wait." default:"96MiB" type:"bytes"`
	ModuleIdle    time.Duration `help:"How long after its last use a module leaves memory; 0: never." default:"30s"`
	ModuleBytes   int64         `help:"Memory of modules that are not in use." default:"256MiB" type:"bytes"`
	CacheDir      string        `help:"Folder of compiled modules; default: cache in --data." placeholder:"DIR"`
	CacheBytes    int64         `help:"Disk for compiled modules; the longest unused go first; 0: any." default:"4GiB" type:"bytes"`
	CompileCPU    time.Duration `name:"compile-cpu" help:"CPU time that compiling a module may take." default:"1m"`
	CompileTime   time.Duration `help:"Time that it may take." default:"2m"`
	CompileMemory int64         `help:"Memory that it may take." default:"2GiB" type:"bytes"`
}

// Limits of a connection. Package httpapi has the limits of bodies and answers.
const (
	headerTimeout  = 10 * time.Second // for the head of a request
	idleTimeout    = 2 * time.Minute  // between two requests
	maxHeaderBytes = 64 << 10         // of the head of a request; a path has an id or token of 128 bytes
)

// Minimum limits of the compiler. With less than the start of this program needs, every module would be refused.
const (
	leastCompileTime  = time.Second
	leastCompileBytes = 64 << 20
	// leastJournalBytes is the size of the largest journal. With less, such a journal would always exceed the limit.
	leastJournalBytes = abi.MaxJournalBytes
	// leastCacheBytes fits the code of the largest module.
	leastCacheBytes = 256 << 20
	// leastGuestBytes fits two guests of the largest size.
	leastGuestBytes = 2 * abi.MaxMemoryBytes
)

// maxRate is the greatest --rate: more than any machine can answer, and its double is still a valid number of requests.
const maxRate = 1e9

// checkEach checks flags that do not depend on others. An empty --data from the environment is checked here, since refuseEmpty
// does not see it.
func (c *serveCmd) checkEach() error {
	switch {
	case c.Data == "":
		return errors.New("--data must not be empty, got \"\"")
	case c.Drain < 0:
		return fmt.Errorf("--drain must not be negative, got %v", c.Drain)
	}
	return c.checkMemory()
}

// checkMemory refuses invalid limits.
func (c *serveCmd) checkMemory() error {
	switch {
	case c.MaxInstances < 1:
		return fmt.Errorf("--max-instances must be at least 1, got %d", c.MaxInstances)
	case c.MaxRuns < 0 || c.MaxRuns > host.MaxQuota:
		return fmt.Errorf("--max-runs must be from 0 to %d, got %d", int64(host.MaxQuota), c.MaxRuns)
	case c.MaxCallsPerHandler < 1 || c.MaxCalls < 1:
		return fmt.Errorf("--max-calls-per-handler and --max-calls must be at least 1, got %d and %d", c.MaxCallsPerHandler, c.MaxCalls)
	case c.MaxChildren < 1:
		return fmt.Errorf("--max-children must be at least 1, got %d", c.MaxChildren)
	case c.PoolBytes < 0:
		return fmt.Errorf("--pool-bytes must not be negative, got %d", c.PoolBytes)
	case c.ParkBytes < 0:
		return fmt.Errorf("--park-bytes must not be negative, got %d", c.ParkBytes)
	case c.GuestBytes < leastGuestBytes:
		return fmt.Errorf("--guest-bytes must be at least %d, twice the largest guest, got %d", leastGuestBytes, c.GuestBytes)
	case c.JournalBytes < leastJournalBytes:
		return fmt.Errorf("--journal-bytes must be at least %d, the largest journal, got %d", leastJournalBytes, c.JournalBytes)
	case c.ModuleIdle < 0:
		return fmt.Errorf("--module-idle must not be negative, got %v", c.ModuleIdle)
	case c.ModuleBytes < 0:
		return fmt.Errorf("--module-bytes must not be negative, got %d", c.ModuleBytes)
	case c.CacheBytes != 0 && c.CacheBytes < leastCacheBytes:
		return fmt.Errorf("--cache-bytes must be 0 or at least %d, got %d", leastCacheBytes, c.CacheBytes)
	case c.CompileCPU < leastCompileTime || c.CompileTime < leastCompileTime:
		return fmt.Errorf("--compile-cpu and --compile-time must be at least %v, got %v and %v", leastCompileTime, c.CompileCPU,
			c.CompileTime)
	case c.CompileMemory < leastCompileBytes:
		return fmt.Errorf("--compile-memory must be at least %d, got %d", leastCompileBytes, c.CompileMemory)
	case !(c.Rate >= 0 && c.Rate <= maxRate) || c.MaxStreams < 1 || c.MaxConnections < 1:
		return fmt.Errorf("--rate must be from 0 to %g, --max-streams and --max-connections must be at least 1, got %g, %d and %d",
			maxRate, c.Rate, c.MaxStreams, c.MaxConnections)
	case c.DiskReserve != nil && *c.DiskReserve < 0:
		return fmt.Errorf("--disk-reserve must not be negative, got %d", *c.DiskReserve)
	case c.WarmBytes < 0:
		return fmt.Errorf("--warm-bytes must not be negative, got %d", c.WarmBytes)
	}
	return nil
}

// drainOf converts --drain to host.Config.Drain, where 0 means the default instead of none.
func drainOf(flag time.Duration) time.Duration {
	if flag <= 0 {
		return -1
	}
	return flag
}

// orNone converts a limit from the command line for the host: 0 means none here, but the default there.
func orNone[T int64 | time.Duration](limit T) T {
	if limit == 0 {
		return -1
	}
	return limit
}

// reserve returns host.Config.DiskReserve.
func (c *serveCmd) reserve() int64 {
	if c.DiskReserve == nil {
		return 0
	}
	return orNone(*c.DiskReserve)
}

// compiler returns the command line of the process that compiles modules. Without one the server does not start: it would
// compile untrusted modules in its own process, without limits of time and memory.
func (c *serveCmd) compiler(g *globals) ([]string, error) {
	self := host.SelfCompiler
	if g.io.self != nil {
		self = g.io.self
	}
	if command := self(); len(command) > 0 {
		return command, nil
	}
	return nil, errors.New("uploads would be compiled without limits of CPU time, time and memory: the server starts itself as " +
		"the process that compiles, and the system does not tell where its program is; mount /proc, or start it by its path")
}

func (c *serveCmd) Run(g *globals) error {
	err := c.check()
	if err == nil {
		err = enoughFiles()
	}
	if err != nil {
		return err
	}
	compiler, err := c.compiler(g)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(g.io.err, &slog.HandlerOptions{Level: c.LogLevel}))
	secret, err := g.openSecrets(c.Secrets, logger)
	if err != nil {
		return err
	}
	codec, err := c.EncryptionKeys.keyring(g)
	if err != nil {
		return err
	}
	m, err := c.newMetrics()
	if err != nil {
		return err
	}
	t, err := c.traceFlags.open(g.ctx, logger)
	if err != nil {
		return err
	}
	defer t.close()
	f, err := c.newFront(g.ctx, logger)
	if err != nil {
		return err
	}
	defer f.close()
	members, err := c.cluster(g, f.address())
	if err != nil {
		return &exitCode{exitUsage, err}
	}
	h, where, shut, err := c.storeFlags.open(g, host.Config{Dir: c.Data, Cluster: members, Clock: g.io.clock, Logger: logger,
		Secrets: secret, Codec: codec,
		Events:      host.JoinEvents(m.events(), t.events(), f.door.Events(host.NumPartitions)),
		DiskReserve: c.reserve(), Drain: drainOf(c.Drain), MaxInstances: c.MaxInstances, MaxChildren: c.MaxChildren,
		MaxCallsPerHandler: c.MaxCallsPerHandler, MaxCalls: c.MaxCalls,
		Quota: &host.Quota{MaxRuns: c.MaxRuns}, PoolBytes: orNone(c.PoolBytes),
		ParkBytes: orNone(c.ParkBytes), WarmBytes: orNone(c.WarmBytes),
		JournalBytes: c.JournalBytes, GuestBytes: c.GuestBytes,
		ModuleIdle: orNone(c.ModuleIdle), ModuleBytes: orNone(c.ModuleBytes), CacheDir: c.CacheDir, CacheBytes: orNone(c.CacheBytes),
		Compiler:      compiler,
		CompileLimits: host.CompileLimits{CPU: c.CompileCPU, Wall: c.CompileTime, Memory: c.CompileMemory}})
	if err != nil {
		return err
	}
	if _, err := c.register(g, h, c.WorkerHandler); err != nil {
		return errors.Join(err, shut())
	}
	if g.io.opened != nil {
		g.io.opened(h)
	}
	return errors.Join(c.open(g, h, where, m.of(h), f, logger), shut())
}

// open admits callers and serves until the command is told to end.
func (c *serveCmd) open(g *globals, h *host.Host, where string, m measures, f *front, logger *slog.Logger) (err error) {
	audit, err := openAudit(c.Data, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, audit.Close()) }()
	access := httpapi.Access{Open: c.NoToken, Hosts: c.Hosts, AnyHost: c.TLSCert != "", Origins: c.AllowOrigin, Proxy: c.BehindProxy,
		Rate: c.Rate, Streams: c.MaxStreams, Audit: audit.record,
		Records: audit.records}
	if c.NoToken {
		logger.Warn("--no-token: every program and every user of this machine may upload code, read all runs and end them")
	} else {
		access.Local = h.Tokens().NewText()
		local, err := writeLocalToken(c.Data, access.Local)
		if err != nil {
			return err
		}
		defer local.remove()
		if err := local.point(f.address()); err != nil {
			logger.Warn("commands on this machine do not find the token by themselves: give them --token-file", "file", local.token,
				"cause", err)
		}
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	stop, at, err := c.serveMetrics(g.ctx, m, access, logger)
	if err != nil {
		return err
	}
	defer stop()
	api := httpapi.New(h, access, c.options(m)...)
	f.door.Open(api)
	_, _ = fmt.Fprintf(g.io.out, "wfhost serves %s://%s from %s\n", scheme, f.address(), where)
	if at != "" {
		_, _ = fmt.Fprintf(g.io.out, "metrics at %s\n", at)
	}
	return c.serve(g.ctx, api, h, f, logger)
}

// options returns the options of the API.
func (c *serveCmd) options(m measures) []httpapi.Option {
	definitions := httpapi.WithInterpreter(func(ctx context.Context) ([]byte, error) { return interpreter(ctx, c.Interpreter) })
	opts := []httpapi.Option{definitions, httpapi.WithMetrics(m.handler()),
		httpapi.WithBuild(buildVersion(), buildCommit())}
	if !c.NoPage {
		opts = append(opts, httpapi.WithPage(page.WithRates(m.rates)))
	}
	return opts
}

// serve runs the host until ctx is done. Then the API only answers reads, and attempts in flight may finish within --drain.
// serve returns when their outcomes are durable.
func (c *serveCmd) serve(ctx context.Context, api *httpapi.API, h *host.Host, f *front, logger *slog.Logger) (err error) {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	watched := make(chan struct{})
	alive, unwatch := context.WithCancel(context.Background())
	go func() {
		defer close(watched)
		f.boss.watch(alive, func() { h.Stats() }) // every writer answers it between two commits
	}()
	defer func() {
		unwatch()
		<-watched
	}()
	f.boss.tell("READY=1\nSTATUS=serving at %s", f.address())
	select {
	case <-ctx.Done():
		logger.Info("draining", "at most", c.Drain)
	case err = <-ran: // the store has failed
		ran <- nil
	case err = <-f.served:
		f.served <- nil
	}
	f.boss.tell("STOPPING=1\nSTATUS=draining")
	api.Drain()
	stop()
	err = errors.Join(err, <-ran)
	f.shutdown()
	logger.Info("ended")
	return err
}

// lockPatience is how long a start waits for the data: a process that was just killed may still hold it.
const lockPatience = 5 * time.Second

// openPatiently opens a host and waits if another process still holds its data.
func openPatiently(ctx context.Context, cfg host.Config) (h *host.Host, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		h, err = host.Open(ctx, cfg)
		return err
	})
	return h, err
}

// patiently calls open again while another process holds the data, for at most lockPatience. It does not bound the time of open,
// which may have to migrate the data.
func patiently(ctx context.Context, open func(context.Context) error) error {
	patient, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err := open(ctx)
		if !errors.Is(err, host.ErrLocked) && !errors.Is(err, store.ErrLocked) {
			return err
		}
		select {
		case <-time.After(lockPatience / 100):
		case <-patient.Done():
			return err
		}
	}
}
