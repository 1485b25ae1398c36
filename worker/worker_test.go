package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/worker"
)

// local is the token of the test servers.
const local = "wfh_local"

// calls is a workflow that calls host/charge with its input. The run has the step's result or failure.
func calls(options string) []byte {
	m := wasmgen.New(0).Text("charge").Text("host/charge").Text(`{"cents":7}`).Text(options).I32(0).I32(0).Call(abi.FnStepDo).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// site is a server with workers.
type site struct {
	*hosttest.Host
	t   *testing.T
	url string
}

func newSite(t *testing.T) *site {
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		if err := h.HandleRemote("charge"); err != nil {
			t.Error(err)
		}
	}))
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Local: local}))
	t.Cleanup(s.Close)
	return &site{h, t, s.URL}
}

// begin starts a run whose step has options.
func (s *site) begin(id, options string) {
	s.t.Helper()
	if _, err := s.Upload(s.t.Context(), id, calls(options), host.AllowStep("charge")); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Start(s.t.Context(), id, nil, host.WithRunID(id)); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a worker until the returned function is called. That function returns the worker's error after the server
// has noticed the end of the worker's requests. Otherwise a request could still get an attempt, which would be
// offered again only when its lease expires.
func (s *site) run(change func(w *worker.Worker)) (stop func() error) {
	w := worker.New(s.url, local)
	w.Logger = slog.New(slog.DiscardHandler)
	change(w)
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		err := <-ended
		s.until("the end of the worker's requests", func() bool {
			list, failed := s.Attempts().Handlers(s.t.Context())
			return failed == nil && list[0].Asking == 0
		})
		return err
	}
}

// entry returns the last entry of a run's step: its result, its failure or a failed attempt.
func (s *site) entry(id string) (host.Entry, bool) {
	var last host.Entry
	found := false
	for e, err := range s.Journal(s.t.Context(), id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if k := e.Kind.String(); k == "step_result" || k == "step_failure" || k == "attempt_failed" {
			last, found = e, true
		}
	}
	return last, found
}

// until polls for a condition, for a minute at most.
func (s *site) until(what string, f func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for !f() {
		brief, end := context.WithTimeout(ctx, 5*time.Millisecond)
		<-brief.Done()
		end()
		if ctx.Err() != nil {
			s.t.Fatalf("%s does not happen", what)
		}
	}
}

type charge struct {
	Cents int `json:"cents"`
}

// TestWorker performs steps that end in different ways.
func TestWorker(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		fn      func(ctx context.Context, in charge) (string, error)
		kind    string
		text    string
	}{
		"result": {"", func(ctx context.Context, in charge) (string, error) {
			a := worker.Info(ctx)
			return fmt.Sprint(in.Cents, a.Step, a.Attempt, a.Delivery, len(a.IdempotencyKey), len(a.TraceParent)), nil
		}, "step_result", `"7charge1 1 26 55"`},
		"once": {`{"at_most_once":true}`, func(context.Context, charge) (string, error) { return "ok", nil }, "step_result", `"ok"`},
		"error": {"", func(context.Context, charge) (string, error) { return "", errors.New("no such card") }, "attempt_failed",
			"no such card"},
		"fatal": {"", func(context.Context, charge) (string, error) { return "", worker.Fatal(errors.New("no such card")) },
			"step_failure", "no such card"},
		"panic": {"", func(context.Context, charge) (string, error) { panic("oh") }, "attempt_failed", "the handler panicked: oh"},
		"large": {"", func(context.Context, charge) (string, error) { return strings.Repeat("x", abi.MaxPayloadBytes), nil },
			"step_failure", "the result cannot be recorded: limit exceeded: a result has at most 1048576 bytes, got 1048578"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			stop := s.run(func(w *worker.Worker) { worker.Handle(w, "charge", c.fn) })
			s.begin("r", c.options)
			s.until("the end of the attempt", func() bool { _, ok := s.entry("r"); return ok })
			if e, _ := s.entry("r"); e.Kind.String() != c.kind || !strings.Contains(string(e.Data), c.text) {
				t.Errorf("%s %.300s, want %s %s", e.Kind, e.Data, c.kind, c.text)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRetryAfter: the next attempt is made after the delay that the worker requests.
func TestRetryAfter(t *testing.T) {
	s := newSite(t)
	stop := s.run(func(w *worker.Worker) {
		worker.Handle(w, "charge", func(ctx context.Context, _ charge) (int, error) {
			if n := worker.Info(ctx).Attempt; n > 1 {
				return n, nil
			}
			return 0, worker.RetryAfter(errors.New("closed"), time.Hour)
		})
	})
	s.begin("r", "")
	s.until("the first attempt", func() bool { _, ok := s.entry("r"); return ok })
	began := s.Clock.Now()
	r := s.Finish("r")
	if e, _ := s.entry("r"); r.Status != host.Completed || string(e.Data) != "2" || s.Clock.Now().Sub(began) != time.Hour {
		t.Error(r.Status, string(e.Data), s.Clock.Now().Sub(began))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestDrain stops a worker during an attempt: it reports the result. A worker whose attempt does not end in time
// gives up.
func TestDrain(t *testing.T) {
	s := newSite(t)
	began := make(chan bool, 1)
	goOn := make(chan bool)
	stop := s.run(func(w *worker.Worker) {
		worker.Handle(w, "charge", func(context.Context, charge) (string, error) { began <- true; <-goOn; return "late", nil })
	})
	s.begin("r", "")
	<-began
	ended := make(chan error)
	go func() { ended <- stop() }()
	goOn <- true
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r := s.Finish("r"); r.Status != host.Completed {
		t.Error(r.Status)
	}
	stop = s.run(func(w *worker.Worker) {
		w.Drain = -1
		worker.Handle(w, "charge", func(ctx context.Context, _ charge) (string, error) { began <- true; <-ctx.Done(); return "", ctx.Err() })
	})
	s.begin("given-up", "")
	<-began
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, ok := s.entry("given-up"); ok {
		t.Error("the attempt of a worker that was stopped is recorded")
	}
	var delivered atomic.Bool
	stop = s.run(func(w *worker.Worker) {
		worker.Handle(w, "charge", func(ctx context.Context, _ charge) (int, error) {
			delivered.Store(true)
			return worker.Info(ctx).Delivery, nil
		})
	})
	s.until("another delivery", func() bool { // an attempt that is delivered just before the clock moves is delivered again
		s.Clock.Advance(host.DefaultLease)
		return delivered.Load()
	})
	r := s.Finish("given-up")
	if e, _ := s.entry("given-up"); r.Status != host.Completed || string(e.Data) < "2" {
		t.Error(r.Status, string(e.Data))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestLost has a worker's lease end during an attempt: the worker is told, and its result is not recorded.
func TestLost(t *testing.T) {
	s := newSite(t)
	causes := make(chan error, 1)
	began := make(chan bool, 2)
	stop := s.run(func(w *worker.Worker) {
		w.Lease = time.Second
		worker.Handle(w, "charge", func(ctx context.Context, _ charge) (int, error) {
			began <- true
			if n := worker.Info(ctx).Delivery; n > 1 {
				return n, nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return -1, nil
		})
	})
	s.begin("r", "")
	<-began
	s.Clock.Advance(time.Second)
	if err := <-causes; !errors.Is(err, worker.ErrLost) {
		t.Error(err)
	}
	r := s.Finish("r")
	if e, _ := s.entry("r"); r.Status != host.Completed || string(e.Data) != "2" {
		t.Error(r.Status, string(e.Data))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestRefused has workers that the server refuses: their errors say why.
func TestRefused(t *testing.T) {
	s := newSite(t)
	noop := func(context.Context, charge) (string, error) { return "", nil }
	for name, c := range map[string]struct {
		change func(w *worker.Worker)
		want   string
	}{
		"handler": {func(w *worker.Worker) { worker.Handle(w, "refund", noop) }, `handler "refund" is not for workers`},
		"lease": {func(w *worker.Worker) { w.Lease = time.Millisecond; worker.Handle(w, "charge", noop) },
			"a lease lasts from 1s to 1h0m0s, got 1ms"},
		"brief": {func(w *worker.Worker) { w.Lease = time.Microsecond; worker.Handle(w, "charge", noop) },
			"a lease lasts from 1s to 1h0m0s, got 0s"},
		"none":        {func(*worker.Worker) {}, "at least one handler"},
		"concurrency": {func(w *worker.Worker) { w.Concurrency = -1; worker.Handle(w, "charge", noop) }, "at least 1, got -1"},
		"token":       {func(w *worker.Worker) { *w = *worker.New(s.url, "wfh_x"); worker.Handle(w, "charge", noop) }, "401"},
	} {
		w := worker.New(s.url, local)
		c.change(w)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWaiting shows what waits for a worker.
func TestWaiting(t *testing.T) {
	s := newSite(t)
	s.begin("r", "")
	s.until("the attempt", func() bool {
		r, err := s.Get(t.Context(), "r")
		return err == nil && r.Reason == `step "charge" waits for a worker of handler "host/charge"`
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/handlers", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+local)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var list []host.RemoteHandler
	if err := json.NewDecoder(res.Body).Decode(httpapi.ItemsOf(&list)); err != nil || len(list) != 1 || list[0].Name != "charge" || list[0].Waiting != 1 {
		t.Errorf("%v %+v", err, list)
	}
}
