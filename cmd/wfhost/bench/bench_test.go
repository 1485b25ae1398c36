package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

func TestRecorder(t *testing.T) {
	from := time.UnixMilli(1_000_000)
	at := func(ms int) time.Time { return from.Add(time.Duration(ms) * time.Millisecond) }
	c := newRecorder(func(r host.Run) int { return int(r.Entries) }, func(r host.Run, _ time.Time) time.Time { return r.Wake })
	commit := func(id string, entries uint64, s host.Status, wake time.Time, now int) {
		c.commit(host.Run{ID: id, Entries: entries, Status: s, Wake: wake}, at(now))
	}
	commit("a", 1, host.Sleeping, at(10), 0) // a start is no operation
	commit("a", 2, host.Sleeping, at(20), 12)
	c.begin(3) // what was before was the warm-up
	if n := c.due(at(19)); n != 0 {
		t.Error(n, "due before their time")
	}
	if n := c.due(at(20)); n != 1 {
		t.Error(n, "due")
	}
	commit("a", 2, host.Running, time.Time{}, 21)
	commit("a", 3, host.Sleeping, at(40), 25) // 5 ms after its instant
	commit("b", 7, host.Sleeping, at(30), 26) // a start
	commit("a", 6, host.Sleeping, at(60), 42) // 2 ms; two that were never slept
	commit("a", 6, host.Completed, time.Time{}, 65)
	commit("b", 8, host.Completed, time.Time{}, 30) // 0 ms
	commit("c", 1, host.Sleeping, at(90), 80)
	commit("c", 2, host.Completed, time.Time{}, 91) // three were asked for
	select {
	case <-c.full:
	default:
		t.Error("it is not full")
	}
	got := latencyOf(c.taken())
	if want := (Latency{2 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond, 3}); got != want {
		t.Errorf("%+v", got)
	}
	if c.free != 2 || c.commits != 5 {
		t.Errorf("%d for nothing, %d commits", c.free, c.commits)
	}
}

func TestSchedule(t *testing.T) {
	first := time.UnixMilli(5_000_000)
	c := newSchedule(first, 4, 2, 2, 5) // one wake every 250 ms: run 0 has three of them, run 1 two
	if a, b := string(c.input(0)), string(c.input(1)); a != "[5000000,5000500,5001000]" || b != "[5000250,5000750]" {
		t.Fatal(a, b)
	}
	late := func(ms int) time.Time { return first.Add(time.Duration(ms) * time.Millisecond) }
	sleeping := func(due int) host.Run { return host.Run{Status: host.Sleeping, Wake: c.due(due)} }
	c.commit(0, sleeping(0), late(-100))
	c.commit(0, host.Run{Status: host.Queued}, late(-90))
	c.commit(0, sleeping(2), late(1)) // warm-up
	c.commit(1, sleeping(1), late(-100))
	c.commit(1, sleeping(3), late(249)) // early, in the warm-up
	// Two wakes in one commit: each counts from its own instant.
	c.commit(0, host.Run{Status: host.Completed}, late(1001))
	c.commit(1, host.Run{Status: host.Completed}, late(760))
	<-c.served
	if got, want := latencyOf(c.late), (Latency{10e6, 501e6, 501e6, 501e6, 3}); got != want || c.early != 1 {
		t.Errorf("%+v, %d early", got, c.early)
	}
	storm := newSchedule(first, 0, 3, 0, 3)
	if got := string(storm.input(2)); got != "[5000000]" {
		t.Error(got)
	}
}

func TestOffset(t *testing.T) {
	for _, rate := range []int{1, 3, 1000, 7919, maxRate} {
		for _, n := range []int{0, 1, rate, 10*rate + 1} {
			want := float64(n) / float64(rate)
			if got := offset(n, rate).Seconds(); math.Abs(got-want) > 1e-8 {
				t.Errorf("%d of %d in a second: after %v s, want %v", n, rate, got, want)
			}
		}
	}
}

func TestReportJSON(t *testing.T) {
	r := newReport("wake", "small")
	r.notef("a %q", "note")
	r.number("wakes", "wakes in a second", perSecond, 1234.56789)
	r.number("rss", "memory", size, math.NaN())
	r.latency("wake", "wake", []time.Duration{1500, 2500})
	b, err := json.Marshal(r)
	const want = `{"bench":"wake","guest":"small","noSync":false,"notes":["a \"note\""],"wakesPerS":1234.568,"rssBytes":null,` +
		`"wakeP50Us":1.5,"wakeP99Us":2.5,"wakeP999Us":2.5,"wakeMaxUs":2.5,"wakeSamplesCount":2}`
	if err != nil || string(b) != want {
		t.Errorf("%s %v", b, err)
	}
	rows := r.Rows()
	if got := strings.Join(rows[0], "|"); got != "wakes in a second|1235 /s|||||" {
		t.Error(got)
	}
	if got := strings.Join(rows[1], "|"); got != "memory|n/a|||||" {
		t.Error(got)
	}
	if got := strings.Join(rows[2], "|"); got != "wake||1.5 µs|2.5 µs|2.5 µs|2.5 µs|2" {
		t.Error(got)
	}
}

func TestLimits(t *testing.T) {
	for text, c := range map[string]Common{
		"give one of them, got 1s and 5":                 {For: time.Second, N: 5, Probe: time.Second},
		"--n must be from 0 to 100000000, got -1":        {N: -1, Probe: time.Second},
		"--probe must be from 1ms to 1m0s, got 0s":       {N: 1},
		"--for must be from 0s to 24h0m0s, got 25h0m0s":  {For: 25 * time.Hour, Probe: time.Second},
		"--warm-up must be from 0s to 24h0m0s, got -1ns": {WarmUp: -1, Probe: time.Second},
	} {
		err := c.check(time.Second, 0)
		if err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v, want %q", c, err, text)
		}
	}
	c := Common{N: 10, WarmUp: 1500 * time.Millisecond}
	if warm, n, err := c.amount(100); warm != 150 || n != 10 || err != nil {
		t.Error(warm, n, err)
	}
	c = Common{For: time.Second / 2}
	if warm, n, err := c.amount(1); !errors.Is(err, ErrUsage) {
		t.Error(warm, n, err)
	}
	c = Common{For: time.Hour}
	if warm, n, err := c.amount(maxRate); !errors.Is(err, ErrUsage) {
		t.Error(warm, n, err)
	}
}

func TestFolder(t *testing.T) {
	c := Common{Dir: filepath.Join(t.TempDir(), "new")}
	dir, remove, err := c.folder()
	if err != nil || filepath.Dir(dir) != c.Dir {
		t.Fatal(dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1234), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := diskBytes(c.Dir); n != 1234 || err != nil {
		t.Error(n, err)
	}
	remove()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error(err)
	}
	c.Dir = filepath.Join(os.DevNull, "sub")
	if _, _, err := c.folder(); err == nil {
		t.Error("a folder in a file")
	}
}

func TestRunID(t *testing.T) {
	if n, ok := numberOf("storm", runID("storm", 17)); n != 17 || !ok {
		t.Error(n, ok)
	}
	for _, id := range []string{"trial-1", "storm-", "storm", "storm-x"} {
		if n, ok := numberOf("storm", id); ok {
			t.Error(id, n)
		}
	}
	if got := string(input(1, -2, 3)) + string(input()); got != "[1,-2,3][]" {
		t.Error(got)
	}
}

func TestNap(t *testing.T) {
	b, sum, seen := Wake{Nap: 100 * time.Millisecond}, int64(0), map[int64]bool{}
	for i := range 1000 {
		ms := b.nap(i)
		if ms < 50 || ms > 150 {
			t.Fatal(i, ms)
		}
		sum += ms
		seen[ms] = true
	}
	if sum < 98_000 || sum > 101_000 || len(seen) < 90 {
		t.Error(sum, len(seen))
	}
	b.Nap = time.Millisecond
	if ms := b.nap(0); ms != 1 {
		t.Error(ms)
	}
}

// TestEach: a worker that finds no more work to start does not cancel the work of the others.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		err := each(t.Context(), 4, 3, 9, func(ctx context.Context, i int) error {
			select {
			case <-time.NewTimer(time.Duration(i) * time.Second).C:
				done.Add(int64(i))
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil || done.Load() != 3+4+5+6+7+8 {
			t.Error(err, done.Load())
		}
		odd := errors.New("odd")
		err = each(t.Context(), 2, 0, 9, func(ctx context.Context, i int) error {
			if i == 3 {
				return odd
			}
			return nil
		})
		if !errors.Is(err, odd) {
			t.Error(err)
		}
	})
}

func TestFiller(t *testing.T) {
	w := newCrew(t.Context(), func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
	defer func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
	}()
	now := time.UnixMilli(0)
	f := filler{want: 10, settle: time.Second, since: now}
	look := func(ms, due, size int, enough bool) {
		t.Helper()
		if got := f.look(w, due, now.Add(time.Duration(ms)*time.Millisecond)); got != enough || w.size != size {
			t.Errorf("at %d ms: enough %v, %d runs", ms, got, w.size)
		}
	}
	look(500, 0, 0, false)
	look(1000, 8, 6, false) // 4 on the average
	look(1500, 4, 6, false)
	look(2000, 10, 9, false) // 7
	look(2100, 20, 9, false) // too soon to tell
	look(3000, 0, 9, true)
	look(4000, 200, 9, true)
}

// TestFilled compares lists of the filled store with the data that was put into it.
func TestFilled(t *testing.T) {
	f := &filled{List: &List{N: 3000, Limit: 1000, Pages: 1, Churn: 100}, env: &Env{Ctx: t.Context(), Say: func(string) {}}, dir: t.TempDir(),
		rng: rand.New(rand.NewPCG(1, 2))}
	err := errors.Join(f.open(true), f.fill(), f.churn())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.s.Close() }()
	got := map[string]int{}
	for _, l := range f.lists() {
		got[l.name], err = l.page(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	counts, err := f.s.Counts(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var all store.Tally
	for i := range counts {
		all.Sum(&counts[i].Runs)
	}
	if all.Total() != 3000 || all[store.Running] != working || all[store.Stuck] != rareRuns || all[store.Completed] < 1000 ||
		all[store.Sleeping] < 800 || all[store.Waiting] < 100 || all[store.Failed] == 0 || all[store.Cancelled] == 0 {
		t.Errorf("counts %v", all)
	}
	if got["newest"] != 1000 || got["oldest"] != 1000 || got["stuck"] != rareRuns || got["rareWorkflow"] != rareRuns ||
		got["rareAttribute"] != rareRuns || got["running"] != working || got["attribute"] == 0 || got["timers"] < 800 ||
		got["counts"] != workflows+1 {
		t.Errorf("lists %v", got)
	}
}
