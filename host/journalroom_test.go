package host_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// emitter is a module that emits n chunks of 62 KiB, sleeps for an hour, and emits n more.
func emitter(chunks int64) []byte {
	emit := func(m *wasmgen.Module) *wasmgen.Module {
		return m.I64(0).Set(0).While().Get(0).I64(chunks).NotLess().Break().Text("t").I32(0).I32(62<<10).Call(abi.FnEmit).Drop().
			Count(0, 1).EndWhile()
	}
	m := emit(wasmgen.New(1)).Text("nap").I64(int64(time.Hour / time.Millisecond)).Call(abi.FnSleep).Drop()
	return emit(m).I32(0).Export(abi.ExportRun).Bytes()
}

// The journals of many runs that emit much at once, and of as many runs that wake, stay within the budget plus one
// journal, and all runs complete.
func TestJournalsStayWithinTheirBudget(t *testing.T) {
	const runs, chunks, limit = 30, 32, 6 << 20
	const journal = 2 * chunks * 63 << 10 // of each run, at its end
	peak := journalsOf(t, runs, emitter(chunks), limit)
	// The journal of each waiting run may have grown since it was last counted: by a counting step and one call.
	if most := int64(limit + journal + runs*(256<<10+63<<10)); peak > most {
		t.Errorf("%d runs with journals of %d bytes had %d bytes in memory, the budget is %d", runs, journal, peak, limit)
	}
	if without := journalsOf(t, runs, emitter(chunks), 1<<40); without < 2*peak {
		t.Errorf("without a budget they had %d bytes in memory, with it %d: the test shows nothing", without, peak)
	}
}

func journalsOf(t *testing.T, runs int, wasm []byte, limit int64) (peak int64) {
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.JournalBytes = limit }))
	_, err := h.Upload(ctx, "w", wasm)
	do(t, err)
	var started sync.WaitGroup
	for i := range runs {
		started.Go(func() {
			_, err := h.Start(ctx, "w", nil, host.WithRunID(fmt.Sprint("run-", i)))
			do(t, err)
		})
	}
	started.Wait()
	h.Advance(2 * time.Hour)
	for i := range runs {
		r, err := h.Wait(ctx, fmt.Sprint("run-", i))
		if do(t, err); r.Status != host.Completed {
			t.Errorf("%s is %s: %s", r.ID, r.Status, r.Reason)
		}
	}
	if left := h.Stats().JournalBytes; left > 0 {
		t.Errorf("%d bytes are counted when all runs have ended", left)
	}
	peak = host.JournalPeak(h.Host)
	t.Logf("a budget of %d bytes: %d at most", limit, peak)
	return peak
}
