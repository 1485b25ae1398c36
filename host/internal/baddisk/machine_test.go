package baddisk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// patience bounds all waits of the tests: whatever takes longer hangs.
const patience = 15 * time.Second

// machine is a host on a disk. Its clock advances only by hand.
type machine struct {
	*host.Host
	t     *testing.T
	clock *clock.Fake
	cache string // a folder for compiled modules
	cfg   host.Config

	store   *pebblestore.Store
	failed  chan struct{} // closed when the host reports that the store has failed
	faults  fmt.Stringer  // what failed, for people
	stop    context.CancelFunc
	ran     chan error
	mu      sync.Mutex
	results map[string]string // newest result that the handler has returned, by idempotency key of the step
}

// guest is the module of all tests.
func guest(t *testing.T) []byte { return hosttest.Build(t, "../../testdata/scenarios") }

func newMachine(t *testing.T, cache string) *machine {
	return &machine{t: t, cache: cache, clock: clock.NewFake(hosttest.Epoch), results: map[string]string{}}
}

// open opens a store in a folder, and a host over it, and runs the host.
func (m *machine) open(dir string, opts pebblestore.Options) (err error) {
	m.store, err = pebblestore.Open(dir, opts)
	if err != nil {
		return err
	}
	cfg := m.cfg
	cfg.Dir, cfg.Store, cfg.Clock, cfg.StartLinger, cfg.Drain = m.cache, m.store, m.clock, patience, -1
	cfg.SweepEvery = -1 // so that the sequence of disk operations is deterministic
	failed := make(chan struct{})
	m.failed, cfg.Events.StoreFailed = failed, func(error) { close(failed) }
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m.Host, err = host.Open(ctx, cfg)
	if err != nil {
		m.Host = nil
		return errors.Join(err, m.store.Close())
	}
	host.HandleStep(m.Host, "count", func(ctx context.Context, i int) (int, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.results[host.StepInfo(ctx).IdempotencyKey] = fmt.Sprint(i)
		return i, nil
	})
	host.HandleStep(m.Host, "payload", func(_ context.Context, n int) (string, error) { return strings.Repeat("\x00é", n), nil })
	running, stop := context.WithCancel(context.Background())
	m.stop, m.ran = stop, make(chan error, 1)
	go func() { m.ran <- m.Run(running) }()
	return nil
}

// close stops the host, and returns the errors of Run and Close.
func (m *machine) close() error {
	if m.Host == nil {
		return nil
	}
	m.stop()
	var err error
	within(m.t, "Run", m.faults, func() { err = <-m.ran })
	within(m.t, "closing the host", m.faults, func() { err = errors.Join(err, m.Host.Close()) })
	within(m.t, "closing the store", m.faults, func() { err = errors.Join(err, m.store.Close()) })
	m.Host = nil
	return err
}

// within calls do, and fails the test if it does not return in time.
func within(t *testing.T, what string, f fmt.Stringer, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("%s hangs; failed: %v", what, f)
	}
}

// advance advances the clock by d, from deadline to deadline, or until the host has failed.
func (m *machine) advance(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for end := m.clock.Now().Add(d); ; {
		next, ok, err := m.WaitIdle(ctx)
		select {
		case <-m.failed:
			return host.ErrStoreFailed
		default:
		}
		switch {
		case ctx.Err() != nil:
			m.t.Fatal("the host does not come to rest")
		case err != nil:
			return err
		case !ok || next.After(end):
			m.clock.Set(end)
			return nil
		case next.After(m.clock.Now()):
			m.clock.Set(next)
		default: // the timer loop takes a moment
			t := clock.System().NewTimer(100 * time.Microsecond)
			<-t.C()
		}
	}
}

// known is what a caller was told.
type known struct {
	Started map[string]bool   // runs whose start was acknowledged
	Results map[string]string // of ended runs
}

func newKnown() *known {
	return &known{Started: map[string]bool{}, Results: map[string]string{}}
}

// check compares the runs of a host with what its caller knows: no run is lost, no result has changed, and each step
// has one result, which its handler has returned.
func (k *known) check(m *machine) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for id := range k.Started {
		r, err := m.Get(ctx, id)
		if err != nil {
			m.t.Fatalf("run %s was acknowledged: %v", id, err)
		}
		if r.Status == host.Stuck || r.Status == host.Failed {
			m.t.Fatalf("run %s is %s: %s", id, r.Status, r.Reason)
		}
		seen := map[int64]int{}
		for e, err := range m.Journal(ctx, id, 0) {
			if err != nil {
				m.t.Fatalf("journal of %s: %v", id, err)
			}
			if e.Kind.String() == "step_result" {
				seen[int64(e.Handle)]++
			}
		}
		for h, n := range seen {
			if n != 1 {
				m.t.Fatalf("run %s: step %d has %d results", id, h, n)
			}
		}
	}
	for id, want := range maps.Clone(k.Results) {
		if got, err := m.ResultRaw(ctx, id); err != nil || string(got) != want {
			m.t.Fatalf("run %s ended with %s, and now says %s %v", id, want, got, err)
		}
	}
}

// learn records the results of ended runs.
func (k *known) learn(m *machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for id := range k.Started {
		r, err := m.Get(ctx, id)
		if err != nil {
			return err
		}
		if !r.Status.Terminal() {
			continue
		}
		b, err := m.ResultRaw(ctx, id)
		if err != nil {
			return err
		}
		if old, ok := k.Results[id]; ok && old != string(b) {
			m.t.Fatalf("run %s ended with %s, and now says %s", id, old, b)
		}
		k.Results[id] = string(b)
	}
	return nil
}
