package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/wfhost/wfhost/host/httpapi"
)

// front is what answers at the address of a server from the moment it listens: that it is starting, until the host is open, and
// the API after that.
type front struct {
	door    *httpapi.Front
	l       net.Listener
	srv     *http.Server
	served  chan error // receives once, when the listener fails or is closed
	release func()     // ends requests that wait for something
	boss    *supervisor
	log     *slog.Logger
}

const (
	// shutdownTime bounds how long answers take that are being written when the host has stopped.
	shutdownTime = time.Second
	// listenPatience is how long a start waits for its address to be free: a process that was just killed still has it.
	listenPatience = 2 * time.Second
	// statusEvery is how often the service manager is told at most how far a start is.
	statusEvery = 500 * time.Millisecond
)

// newFront listens, and begins to answer. The caller closes the front.
func (c *serveCmd) newFront(ctx context.Context, log *slog.Logger) (*front, error) {
	l, err := c.listenPatiently(ctx, log)
	if err != nil {
		return nil, err
	}
	held, release := context.WithCancel(context.Background())
	f := &front{l: l, served: make(chan error, 1), release: release, boss: newSupervisor(log), log: log}
	f.door = httpapi.NewFront("", f.tell())
	f.srv = &http.Server{Handler: f.door, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return held }}
	go func() { f.served <- f.srv.Serve(l) }()
	return f, nil
}

// tell returns a function that tells the service manager, and the log, how far a start is.
func (f *front) tell() func(httpapi.Readiness) {
	var told time.Time
	return func(r httpapi.Readiness) {
		if now := time.Now(); now.Sub(told) >= statusEvery {
			told = now
			f.boss.tell("STATUS=starting: %s", r.Detail)
			f.log.Debug("starting", "detail", r.Detail)
		}
	}
}

// listenPatiently opens the listener at an address that another process may be about to let go of.
func (c *serveCmd) listenPatiently(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	for {
		l, err := c.listen(ctx, log)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-time.After(listenPatience / 100):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// address returns where the server listens.
func (f *front) address() string { return f.l.Addr().String() }

// shutdown answers what waits for something with what there is, and what is being answered to its end.
func (f *front) shutdown() {
	f.release()
	wait, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if late := f.srv.Shutdown(wait); late != nil { // a client that does not read
		f.log.Warn("connections were cut", "cause", late)
		_ = f.srv.Close() // nothing is left to be said to them
	}
}

// close ends what is left.
func (f *front) close() {
	f.release()
	_ = f.srv.Close() // nothing is left to be said
	<-f.served
	f.boss.close()
}
