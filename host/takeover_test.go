package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// ledger records what the handler of a step has done, by idempotency key.
type ledger struct {
	mu     sync.Mutex
	inputs map[string]string
	wrong  []string
}

func (l *ledger) effect(ctx context.Context, input []byte) ([]byte, error) {
	s := host.StepInfo(ctx)
	what := s.RunID + " " + s.Name + " " + string(input)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.inputs[s.IdempotencyKey]; ok && before != what {
		l.wrong = append(l.wrong, fmt.Sprintf("%s was %q, and is %q", s.IdempotencyKey, before, what))
	}
	l.inputs[s.IdempotencyKey] = what
	return input, nil
}

// tourModule sleeps, calls a step, starts a child and waits for it, receives a signal and calls another step.
func tourModule() []byte {
	m := wasmgen.New(1)
	step := func(name string) {
		m.Text(name).Text("host/effect").I32(1024).Get(0).Wrap().Text(`{"attempts":100,"delay":"1ms","max_delay":"20ms"}`).I32(2048).I32(64).
			Call(abi.FnStepDo).Drop()
	}
	m.I32(1024).I32(64).Call(abi.FnInput).Set(0)
	m.Text("nap").I64(20).Call(abi.FnSleep).Drop()
	step("one")
	m.Text("kid").Text("kid").Text("5ms").I32(0).I32(0).Call(abi.FnChildStart).Drop()
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	m.Text("go").I64(-1).Call(abi.FnSignalStart).Drop()
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	step("two")
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// pair is two hosts of one process that share a store.
type pair struct {
	t     *testing.T
	hosts [2]*host.Host
}

func newPair(t *testing.T, s store.Store, handler func(context.Context, []byte) ([]byte, error)) *pair {
	p := &pair{t: t}
	for i := range p.hosts {
		cfg := host.Config{Store: s, Partitions: []int{}}
		for n := i; n < host.NumPartitions; n += len(p.hosts) {
			cfg.Partitions = append(cfg.Partitions, n)
		}
		h, err := host.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		h.HandleRawStep("effect", handler)
		running, stop := context.WithCancel(ctx)
		ran := make(chan error, 1)
		go func() { ran <- h.Run(running) }()
		t.Cleanup(func() {
			stop()
			if err := errors.Join(<-ran, h.Close()); err != nil {
				t.Error(err)
			}
		})
		p.hosts[i] = h
	}
	return p
}

// any calls f with the host that currently owns the run.
func (p *pair) any(do func(h *host.Host) error) {
	p.t.Helper()
	for i := 0; ; i++ {
		err := do(p.hosts[i%2])
		if err == nil {
			return
		}
		if !errors.Is(err, host.ErrFenced) {
			p.t.Error(err)
			return
		}
	}
}

func TestPartitions(t *testing.T) {
	p := newPair(t, memstore.New().Open(), (&ledger{inputs: map[string]string{}}).effect)
	if n := len(p.hosts[0].Partitions()); n != host.NumPartitions/2 {
		t.Fatalf("%d partitions", n)
	}
	if _, err := p.hosts[0].Upload(ctx, "kid", napModule()); err != nil {
		t.Fatal(err)
	}
	owner := map[bool]int{}
	for i := range 20 {
		_, err := p.hosts[0].StartRaw(ctx, "kid", []byte("1h"), host.WithRunID(fmt.Sprint("r", i)))
		if err != nil && !errors.Is(err, host.ErrFenced) {
			t.Fatal(err)
		}
		owner[err == nil]++
		if err != nil {
			if want := fmt.Sprintf("run %q: the run's partition is not owned by this host", fmt.Sprint("r", i)); err.Error() != want {
				t.Errorf("%v", err)
			}
			if _, err := p.hosts[1].StartRaw(ctx, "kid", []byte("1h"), host.WithRunID(fmt.Sprint("r", i))); err != nil {
				t.Fatal(err)
			}
			if _, err := p.hosts[0].Get(ctx, fmt.Sprint("r", i)); err != nil { // reading needs no owner
				t.Error(err)
			}
			if _, err := p.hosts[0].Wait(ctx, fmt.Sprint("r", i)); !errors.Is(err, host.ErrFenced) {
				t.Error(err)
			}
		}
	}
	if len(owner) != 2 {
		t.Fatal(owner)
	}
	if err := p.hosts[1].ReleasePartitions(ctx, p.hosts[1].Partitions()...); err != nil {
		t.Fatal(err)
	}
	if got := p.hosts[1].Partitions(); len(got) != 0 {
		t.Fatal(got)
	}
	for _, bad := range []int{-1, host.NumPartitions} {
		if err := p.hosts[0].AcquirePartitions(ctx, bad); !errors.Is(err, host.ErrInvalid) {
			t.Error(err)
		}
	}
	if err := p.hosts[0].AcquirePartitions(ctx, allPartitions()...); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		until(t, p.hosts[0], fmt.Sprint("r", i), func(r host.Run) bool { return r.Status == host.Sleeping }) // it may not have begun
		if n, err := p.hosts[0].Wake(ctx, fmt.Sprint("r", i), ""); err != nil || n != 1 {
			t.Error(n, err)
		}
	}
}

func allPartitions() (list []int) {
	for i := range host.NumPartitions {
		list = append(list, i)
	}
	return list
}

// TestTakeover has two hosts take partitions from each other while runs start, sleep, call steps, start children and
// receive signals. At the end, everything acknowledged is present once, and no timer fired early.
func TestTakeover(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New().Open() },
		"disk": func(t *testing.T) store.Store {
			s, err := pebblestore.Open(filepath.Join(t.TempDir(), "store"), pebblestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { takeover(t, open(t)) })
	}
}

func takeover(t *testing.T, s store.Store) {
	const clients, fewest = 4, 40
	takeovers := 1000
	if testing.Short() {
		takeovers = 100
	}
	l := &ledger{inputs: map[string]string{}}
	p := newPair(t, s, l.effect)
	for name, wasm := range map[string][]byte{"tour": tourModule(), "kid": napModule()} {
		if _, err := p.hosts[0].Upload(ctx, name, wasm, host.AllowStep("*")); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					if i >= fewest {
						return
					}
				default:
				}
				id := fmt.Sprintf("r%d-%d", c, i)
				p.any(func(h *host.Host) error {
					_, err := h.StartRaw(ctx, "tour", []byte(id), host.WithRunID(id))
					return err
				})
				p.any(func(h *host.Host) error { return h.Signal(ctx, id, "go", id, host.WithIdempotencyKey("once")) })
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
				pause(t, 10*time.Millisecond) // otherwise there would be thousands of them
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, uint64(takeovers)))
	for range takeovers {
		some := rng.Perm(host.NumPartitions)[:1+rng.IntN(8)]
		if err := p.hosts[rng.IntN(2)].AcquirePartitions(ctx, some...); err != nil {
			t.Fatal(err)
		}
		pause(t, time.Duration(rng.IntN(4))*time.Millisecond)
	}
	close(over)
	wg.Wait()
	if err := p.hosts[0].AcquirePartitions(ctx, allPartitions()...); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		checkTour(t, p.hosts[0], id)
	}
	if len(l.wrong) > 0 {
		t.Error(l.wrong)
	}
	t.Logf("%d runs, %d takeovers, %d effects", len(ids), takeovers, len(l.inputs))
}

// pause waits in real time.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// checkTour waits for a run and checks its journal.
func checkTour(t *testing.T, h *host.Host, id string) {
	t.Helper()
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if r, err := h.Wait(waiting, id); err != nil || r.Status != host.Completed {
		_, failure := h.ResultRaw(waiting, id)
		t.Fatalf("%s: %+v %v %v", id, r, err, failure)
	}
	count := map[store.Kind]int{}
	due := map[int64]int64{}
	for e, err := range h.Journal(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		count[e.Kind]++
		switch e.Kind {
		case store.KindSleep:
			due[e.Handle] = e.DueUnixMs
		case store.KindTimer:
			if e.UnixMs < due[e.Handle] {
				t.Errorf("%s: a timer fired %d ms before its time", id, due[e.Handle]-e.UnixMs)
			}
		}
	}
	for kind, n := range map[store.Kind]int{store.KindStepResult: 2, store.KindTimer: 1, store.KindChildResult: 1,
		store.KindSignalAccepted: 1, store.KindSignal: 1, store.KindCompleted: 1} {
		if count[kind] != n {
			t.Errorf("%s: %d entries %v, want %d", id, count[kind], kind, n)
		}
	}
	if slices.ContainsFunc([]store.Kind{store.KindStepFailure, store.KindChildFailure}, func(k store.Kind) bool { return count[k] > 0 }) {
		t.Errorf("%s: %v", id, count)
	}
}
