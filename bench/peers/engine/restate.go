//go:build linux

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/proc"
)

// RestateVersion is the version of the server that the README and the sentence below install.
const RestateVersion = "1.7.12"

// idleConnections is how many connections to the ingress are kept: more than there are callers.
const idleConnections = 512

// restateEngine is a Restate server and a service of it in this process. Settings of the server are its defaults, which
// are durable: the write-ahead logs of its log server and of its metadata are synced. It gets addresses on 127.0.0.1, and
// is told to send no telemetry and to log warnings only.
type restateEngine struct {
	server  *proc.Server
	client  *http.Client
	ingress string
	admin   string
	note    func(job.Step)
	unserve context.CancelFunc
	served  chan error
}

func checkRestate(o Options) error {
	if info, err := os.Stat(o.RestateBin); err != nil || info.IsDir() {
		return &MissingError{Restate, fmt.Sprintf("there is no server %q", o.RestateBin), "make bench-peers-install (npm, " +
			"@restatedev/restate-server@" + RestateVersion + "), or give the server by -restate FILE"}
	}
	return nil
}

func openRestate(ctx context.Context, o Options, note func(job.Step)) (Opened, error) {
	var ports [4]int
	for i := range ports {
		var err error
		ports[i], err = proc.Port()
		if err != nil {
			return nil, err
		}
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	const ingress, admin, fabric, service = 0, 1, 2, 3
	s, err := proc.Start(proc.Spec{Name: "restate", Dir: o.Dir, Quit: syscall.SIGTERM,
		Args: []string{o.RestateBin, "--no-logo", "--node-name", "n1", "--base-dir", filepath.Join(o.Dir, "restate-data")},
		Env: []string{
			"RESTATE_BIND_IP=127.0.0.1", "RESTATE_LISTEN_MODE=tcp", "RESTATE_BIND_ADDRESS=" + at(fabric),
			"RESTATE_INGRESS__BIND_ADDRESS=" + at(ingress), "RESTATE_ADMIN__BIND_ADDRESS=" + at(admin),
			"RESTATE_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1", "RESTATE_LOG_FILTER=warn",
		}})
	if err != nil {
		return nil, err
	}
	serving, unserve := context.WithCancel(context.WithoutCancel(ctx))
	e := &restateEngine{server: s, ingress: "http://" + at(ingress) + "/Bench/Run", admin: "http://" + at(admin), note: note,
		client:  &http.Client{Transport: &http.Transport{MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections}},
		unserve: unserve, served: make(chan error, 1)}
	bound := server.NewRestate().WithLogger(slog.NewTextHandler(io.Discard, nil), true).
		Bind(restate.NewService("Bench").Handler("Run", restate.NewServiceHandler(e.run)))
	go func() { e.served <- bound.Start(serving, at(service)) }()
	if err := e.register(ctx, "http://"+at(service)); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// register blocks until the server knows the service, and its ingress, which learns of it later, takes calls.
func (e *restateEngine) register(ctx context.Context, service string) error {
	if err := retry(ctx, e.server, func() error {
		return e.post(ctx, e.admin+"/deployments", map[string]any{"uri": service, "force": true})
	}); err != nil {
		return fmt.Errorf("register the service: %w", err)
	}
	if err := retry(ctx, e.server, func() error { return e.Run(ctx, job.Workflow{ID: "first"}) }); err != nil {
		return fmt.Errorf("the first call: %w", err)
	}
	return nil
}

// run is the workflow.
func (e *restateEngine) run(ctx restate.Context, in job.Workflow) (int, error) {
	for n := range in.Before + in.After {
		if n == in.Before && in.SleepMs > 0 {
			if err := restate.Sleep(ctx, time.Duration(in.SleepMs)*time.Millisecond); err != nil {
				return 0, err
			}
		}
		if _, err := restate.Run(ctx, func(restate.RunContext) (int, error) {
			e.note(job.Step{Slot: in.Slot, Number: n})
			return n, nil
		}); err != nil {
			return 0, err
		}
	}
	return in.Before + in.After, nil
}

// Start returns when the server has accepted the invocation, which it does when that is durable.
func (e *restateEngine) Start(ctx context.Context, w job.Workflow) error {
	return e.post(ctx, e.ingress+"/send", w)
}

func (e *restateEngine) Run(ctx context.Context, w job.Workflow) error {
	return e.post(ctx, e.ingress, w)
}

// post sends a request with a JSON body. A status of 300 or more is an error.
func (e *restateEngine) post(ctx context.Context, url string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("restate: %s: %s", answer.Status, text)
	}
	return err
}

func (e *restateEngine) Close() error {
	e.client.CloseIdleConnections()
	err := e.server.Stop()
	e.unserve()
	return errors.Join(err, <-e.served)
}
