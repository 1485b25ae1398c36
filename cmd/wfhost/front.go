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

// front answers at the server's address from the moment it listens: first that the server is starting, then, when the host is
// open, with the API.
type front struct {
	door    *httpapi.Front
	l       net.Listener
	srv     *http.Server
	served  chan error // receives once, when the listener fails or is closed
	release func()     // ends requests that wait
	boss    *supervisor
	log     *slog.Logger
}

const (
	// shutdownTime is how long answers in progress may take after the host has stopped.
	shutdownTime = time.Second
	// listenPatience is how long a start waits for its address: a process that was just killed may still hold it.
	listenPatience = 2 * time.Second
	// statusEvery is the shortest interval between progress reports to the service manager.
	statusEvery = 500 * time.Millisecond
)

// newFront listens and starts to answer. The caller closes the front.
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

// tell returns a function that reports the progress of a start to the service manager and the log.
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

// listenPatiently opens the listener and waits if another process still holds the address.
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

// address returns the address that the server listens on.
func (f *front) address() string { return f.l.Addr().String() }

// shutdown ends waiting requests with what is known so far, and lets answers in progress finish.
func (f *front) shutdown() {
	f.release()
	wait, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if late := f.srv.Shutdown(wait); late != nil { // a client does not read
		f.log.Warn("connections were cut", "cause", late)
		_ = f.srv.Close() // nothing more to send
	}
}

// close closes what is still open.
func (f *front) close() {
	f.release()
	_ = f.srv.Close() // nothing more to send
	<-f.served
	f.boss.close()
}
