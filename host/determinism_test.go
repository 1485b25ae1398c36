package host_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// point is a wait of a run: after n deliveries in an iteration.
type point struct {
	run       string
	iteration uint32
	n         uint64
}

// memories holds a hash of a run's memory at each of its waits.
type memories struct {
	mu     sync.Mutex
	hashes map[point][32]byte
	points int
	diffs  []string
}

func (m *memories) see(w host.WaitInfo) {
	key, h := point{w.RunID, w.Iteration, w.Deliveries}, w.Memory()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.points++
	if old, ok := m.hashes[key]; ok && old != h {
		m.diffs = append(m.diffs, fmt.Sprint(key))
	}
	m.hashes[key] = h
}

// forget drops what was seen of a run before a crash. What it does after its newest durable call, and when, may be
// different after the crash.
func (m *memories) forget(run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.hashes {
		if key.run == run {
			delete(m.hashes, key)
		}
	}
}

// forgetFrom drops what was seen in an iteration from the n-th delivery on.
func (m *memories) forgetFrom(run string, iteration uint32, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.hashes {
		if key.run == run && key.iteration == iteration && key.n >= n {
			delete(m.hashes, key)
		}
	}
}

// compareDurable compares what a host has seen of a run before it was killed with a replay of the durable journal, up
// to the journal's newest call. After that call, the workflow may have read a time that was not durable yet.
func (m *memories) compareDurable(t *testing.T, h *hosttest.Host, run string) {
	t.Helper()
	r, err := host.Open(ctx, host.Config{Store: h.OpenStore(), Dir: h.Dir(), Clock: h.Clock, Events: host.Events{GuestWaits: m.see}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	of, err := r.Get(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	newest := uint64(0)
	for e, err := range r.Journal(ctx, run, 0) {
		if err != nil {
			t.Fatal(err)
		}
		newest = max(newest, e.Consumed) // of calls
	}
	m.forgetFrom(run, of.Iteration, newest)
	if err := r.Replay(ctx, run); err != nil {
		t.Fatal(err)
	}
}

// workflows is the number of random workflows: a few here, 500 with make determinism.
func workflows() int {
	if n, err := strconv.Atoi(os.Getenv("WFHOST_RANDOM_WORKFLOWS")); err == nil {
		return n
	}
	if testing.Short() {
		return 2
	}
	return 8
}

// TestRandomWorkflows runs random workflows in Go and TypeScript with dropped activations and restarts. At each wait,
// the memory of the workflow is the same in the live run, in every replay and in every copy made for a body. At the
// end the whole journal is replayed once more.
func TestRandomWorkflows(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		randomWorkflows(t, hosttest.Build(t, "testdata/random"))
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		wasm, _, err := typescript.Build(t.Context(), "testdata/randomts/random.ts")
		if err != nil {
			t.Fatal(err)
		}
		randomWorkflows(t, wasm)
	})
}

func randomWorkflows(t *testing.T, wasm []byte) {
	m := &memories{hashes: map[point][32]byte{}}
	n := workflows()
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 3))
		h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
			c.Events.GuestWaits = m.see
			if seed%2 == 0 {
				c.Linger = -1 // each outcome meets a new instance
			}
		}))
		if _, err := h.Upload(ctx, "random", wasm); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("run-", seed)
		if _, err := h.Start(ctx, "random", seed, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		for range 3 { // with one more crash, a step that is always running could make its run stuck
			h.CrashAt(rng.IntN(6), rng.IntN(2) == 0)
			h.Advance(time.Duration(rng.IntN(4000)) * time.Millisecond)
			h.Kill()
			m.compareDurable(t, h, id)
			m.forget(id)
			h.Reopen()
		}
		if r := h.Finish(id); r.Status != host.Completed {
			_, err := h.ResultRaw(ctx, id)
			t.Fatalf("seed %d: %s %s %v", seed, r.Status, r.Reason, err)
		}
		if err := h.Replay(ctx, id); err != nil {
			t.Fatalf("seed %d: replay: %v", seed, err)
		}
		h.Stop()
		replayInEveryWay(t, h, m, id)
	}
	if len(m.diffs) > 0 {
		t.Fatalf("memory differs at %d of %d points: %v", len(m.diffs), m.points, m.diffs)
	}
	t.Logf("%d workflows, %d points compared", n, m.points)
}

// replayInEveryWay replays a run in new instances, and in used instances that were reset in each of the ways. At
// every wait, all agree in memory, globals and used fuel.
func replayInEveryWay(t *testing.T, h *hosttest.Host, m *memories, id string) {
	t.Helper()
	ways := []string{"none", "scan", "drop", "copy"}
	if testing.Short() {
		ways = ways[1:3]
	}
	for _, reset := range ways {
		cfg := host.Config{Store: h.OpenStore(), Dir: h.Dir(), Clock: h.Clock, Events: host.Events{GuestWaits: m.see}}
		cfg.ResetBy(reset)
		r, err := host.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := r.Replay(ctx, id); err != nil {
				t.Fatalf("%s: replay: %v", reset, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeterminismCheckBites checks that the comparison would detect real randomness: two runs that differ only in
// their seed have different memory.
func TestDeterminismCheckBites(t *testing.T) {
	m := &memories{hashes: map[point][32]byte{}}
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.Events.GuestWaits = func(w host.WaitInfo) {
			w.RunID = "one"
			m.see(w)
		}
	}))
	if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/scenarios")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := h.Start(ctx, "clock", 0)
		if err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if _, err := h.Cancel(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.diffs) == 0 {
		t.Fatal("other random numbers were not noticed")
	}
}

// TestTenThousandSleepers checks that sleeping runs hold nothing: no instance, no owner, no goroutine.
func TestTenThousandSleepers(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	l := newLab(t)
	before := goroutines(l)
	if _, err := l.Upload(ctx, "napper", napper()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		l.begin("napper", nil, host.WithRunID(fmt.Sprintf("s%05d", i)))
	}
	l.Settle()
	s := l.Stats()
	if s.Instances != 0 || s.Runs != 0 || s.Timers != 0 || s.Queued != 0 {
		t.Fatalf("%+v", s)
	}
	if after := goroutines(l); after > before+3 {
		t.Fatalf("%d goroutines, %d before", after, before)
	}
	if next, ok := l.Clock.Next(); !ok || next.Before(hosttest.Epoch.Add(23*time.Hour)) {
		t.Fatalf("the host looks again at %v", next)
	}
}

// napper is the smallest workflow: it sleeps for a day.
func napper() []byte {
	section := func(id byte, body ...byte) []byte { return append([]byte{id, byte(len(body))}, body...) }
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	join := slices.Concat[[]byte]
	var day []byte
	for v := int64(86_400_000); ; v >>= 7 { // signed LEB128
		if v < 64 {
			day = append(day, byte(v))
			break
		}
		day = append(day, byte(v&0x7f)|0x80)
	}
	code := join([]byte{0, 0x41, 0, 0x41, 3, 0x42}, day, []byte{0x10, 0, 0x1a, 0x41, 0, 0x0b})
	return join([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 2, 0x60, 3, 0x7f, 0x7f, 0x7e, 1, 0x7e, 0x60, 0, 1, 0x7f),
		section(2, join([]byte{1}, text("workflow_v1"), text("sleep"), []byte{0, 0})...),
		section(3, 1, 1), section(5, 1, 0, 1),
		section(7, join([]byte{2}, text("memory"), []byte{2, 0}, text("workflow_run"), []byte{0, 1})...),
		section(10, join([]byte{1, byte(len(code))}, code)...),
		section(11, join([]byte{1, 0, 0x41, 0, 0x0b}, text("nap"))...))
}
