package host_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// tenant returns a namespace of a host with the workflows "nap", which sleeps for a day, and "w".
func tenant(t *testing.T, h *hosttest.Host, name string, w *wasmgen.Module) *host.Namespace {
	t.Helper()
	ns, err := h.Namespace(ctx, name)
	do(t, err)
	_, err = ns.Upload(ctx, "nap", napModule())
	do(t, err)
	if w != nil {
		_, err = ns.Upload(ctx, "w", w.Export(abi.ExportRun).Bytes())
		do(t, err)
	}
	return ns
}

// refusedStart checks that a start is refused with a sentence.
func refusedStart(t *testing.T, ns *host.Namespace, sentence string, opts ...host.StartOption) {
	t.Helper()
	if _, err := ns.StartRaw(ctx, "nap", []byte("1d"), opts...); !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), sentence) {
		t.Errorf("got %v, want %q", err, sentence)
	}
}

func TestQuotaOfRuns(t *testing.T) {
	h := hosttest.New(t)
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxRuns: 2}))
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	nap := func(ns *host.Namespace, opts ...host.StartOption) host.Run {
		t.Helper()
		r, err := ns.StartRaw(ctx, "nap", []byte("1d"), opts...)
		do(t, err)
		return r
	}
	first := nap(a, host.WithRunID("first"))
	nap(a)
	const full = "2 runs of the namespace have not ended, its quota is 2"
	refusedStart(t, a, full)
	refusedStart(t, a, full, host.WithRunID("first"), host.OnConflict(host.ConflictFail))
	if _, err := a.Restart(ctx, "first", "", ""); !errors.Is(err, host.ErrBusy) {
		t.Error(err)
	}
	want(t, nap(a, host.WithRunID("first")).Existed, true) // which is no new one
	nap(a, host.WithRunID("first"), host.OnConflict(host.ConflictTerminate))
	for range 3 {
		nap(b)
	}
	h.Crash() // the quota and the use are durable
	a, err := h.Namespace(ctx, "a")
	do(t, err)
	refusedStart(t, a, full)
	u, err := a.Usage(ctx)
	do(t, err)
	want(t, u.Runs, int64(2))
	do(t, a.Terminate(ctx, first.ID))
	nap(a)
	refusedStart(t, a, full)
	do(t, h.SetQuota(ctx, "a", host.Quota{}))
	nap(a)
	q, err := a.Quota(ctx)
	do(t, err)
	want(t, q, host.Quota{MaxRuns: host.DefaultMaxRuns})
}

// TestQuotaOfChildren has a workflow start itself until it is refused: the refusal is recorded in its journal.
func TestQuotaOfChildren(t *testing.T) {
	p := newPrims(t)
	do(t, p.SetQuota(ctx, "default", host.Quota{MaxRuns: 4}))
	id := p.begin("deep", 0)
	want(t, result[int](p, id), 3)
	do(t, p.SetQuota(ctx, "", host.Quota{}))
	p.Crash()
	for r, err := range p.Runs(ctx, host.Query{}) {
		do(t, err)
		do(t, p.Replay(ctx, r.ID))
	}
	deepest := ""
	for r, err := range p.Runs(ctx, host.Query{}) {
		do(t, err)
		if len(r.ID) > len(deepest) {
			deepest = r.ID
		}
	}
	said := ""
	for e, err := range p.Journal(ctx, deepest, 0) {
		do(t, err)
		if e.Kind.String() == "child_failure" {
			said = string(e.Data)
			want(t, e.Code, int32(abi.Limit))
		}
	}
	if !strings.Contains(said, "was not started: 4 runs of the namespace have not ended, its quota is 4") || !strings.Contains(said, `"LIMIT"`) {
		t.Errorf("the run %s was told %s", deepest, said)
	}
}

func TestQuotaOfStarts(t *testing.T) {
	h := hosttest.New(t)
	do(t, h.SetQuota(ctx, "a", host.Quota{StartsPerSecond: 3}))
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	for range 2 {
		for range 3 {
			_, err := a.StartRaw(ctx, "nap", []byte("1d"))
			do(t, err)
		}
		refusedStart(t, a, "the namespace starts more than 3 runs a second, its quota")
		_, err := b.StartRaw(ctx, "nap", []byte("1d"))
		do(t, err)
		h.Advance(time.Second)
	}
	// Iterations count, and are not refused.
	_, err := a.Upload(ctx, "shrinking", shrinking())
	do(t, err)
	r, err := a.StartRaw(ctx, "shrinking", make([]byte, 9))
	do(t, err)
	_, err = a.ResultRaw(ctx, r.ID)
	do(t, err)
	refusedStart(t, a, "a second, its quota")
	h.Advance(time.Second)
	_, err = a.StartRaw(ctx, "nap", []byte("1d"))
	do(t, err)
}

func TestQuotaOfBytes(t *testing.T) {
	emits := wasmgen.New(0)
	emits.Pages = 2
	for range 3 {
		emits.Text("topic").I32(0).I32(60_000).Call(abi.FnEmit).Drop()
	}
	h := hosttest.New(t)
	a := tenant(t, h, "a", emits.I32(0))
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxBytes: 300_000}))
	var last string
	for range 2 { // the output is stored twice: in the journal and separately
		r, err := a.StartRaw(ctx, "w", nil)
		do(t, err)
		last = r.ID
		_, err = a.ResultRaw(ctx, r.ID)
		do(t, err)
		u, err := a.Usage(ctx)
		do(t, err)
		if u.Bytes%4096 != 0 || u.Bytes < 360_000 {
			t.Errorf("%+v", u)
		}
		refusedStart(t, a, fmt.Sprintf("the runs of the namespace hold %d bytes, its quota is 300000", u.Bytes))
		h.Crash()
		a, err = h.Namespace(ctx, "a")
		do(t, err)
		again, err := a.Usage(ctx)
		do(t, err)
		want(t, again, u)
		do(t, a.Delete(ctx, last))
		u, err = a.Usage(ctx)
		do(t, err)
		want(t, u, host.Usage{})
	}
}

// TestQuotaOfInstances has a namespace compute forever that may use one of two places: another namespace gets the
// other place.
func TestQuotaOfInstances(t *testing.T) {
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.MaxFuel, c.MaxSegmentCPU, c.StartLinger, c.MaxInstances = math.MaxInt64/2, time.Hour, time.Millisecond, 2
	}))
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxInstances: 1}))
	a, b := tenant(t, h, "a", spin()), tenant(t, h, "b", nil)
	for i := range 5 {
		_, err := a.StartRaw(ctx, "w", nil, host.WithRunID(fmt.Sprint("spin", i)))
		do(t, err)
	}
	for range 20 {
		_, err := b.StartRaw(ctx, "nap", []byte("1d"))
		do(t, err)
		u, err := a.Usage(ctx)
		do(t, err)
		if u.Instances > 1 {
			t.Fatalf("%d compute, the quota is 1", u.Instances)
		}
	}
	for i := range 5 {
		do(t, a.Terminate(ctx, fmt.Sprint("spin", i)))
	}
}

func TestQuotasThatCannotBe(t *testing.T) {
	h := hosttest.New(t)
	for _, q := range []host.Quota{{MaxRuns: -1}, {MaxBytes: host.MaxQuota + 1}, {MaxInstances: -1}, {StartsPerSecond: -1},
		{RequestsPerSecond: math.MinInt64}, {WakesPerSecond: -1}} {
		if err := h.SetQuota(ctx, "a", q); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for name, target := range map[string]error{"no name": host.ErrInvalid, "nobody": host.ErrNotFound} {
		if err := h.SetQuota(ctx, name, host.Quota{}); !errors.Is(err, target) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := host.Open(ctx, host.Config{Dir: t.TempDir(), Quota: &host.Quota{MaxRuns: -1}})
	if !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), "Config.Quota") {
		t.Error(err)
	}
}

// TestRefusalsHoldNothing has callers of one namespace be refused again and again. Their refusals are delayed,
// without effect on other callers.
func TestRefusalsHoldNothing(t *testing.T) {
	h := hosttest.New(t)
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxRuns: 1}))
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	_, err := a.StartRaw(ctx, "nap", []byte("1d"))
	do(t, err)
	const callers = 500
	going, stop := context.WithCancel(ctx)
	var refusals atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for going.Err() == nil {
				if _, err := a.StartRaw(going, "nap", []byte("1d")); !errors.Is(err, host.ErrBusy) && going.Err() == nil {
					t.Error(err)
				}
				refusals.Add(1)
			}
		})
	}
	for refusals.Load() < callers { // by now, the next refusal of each is delayed by half a second
		runtime.Gosched()
	}
	least := int64(math.MaxInt64)
	for range 3 { // the machine may stand still
		before := refusals.Load()
		if err := b.Workflows().DeleteVersion(ctx, "none", 1); !errors.Is(err, host.ErrNotFound) {
			t.Error(err)
		}
		_, err := b.StartRaw(ctx, "nap", []byte("1d"))
		do(t, err)
		least = min(least, refusals.Load()-before)
	}
	if least > callers/2 {
		t.Errorf("%d starts were refused while another namespace deleted a version and started a run", least)
	}
	stop()
	all.Wait()
}
