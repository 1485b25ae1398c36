package host_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// countedStore is a store on disk that counts the fsyncs of the write-ahead log.
func countedStore(t *testing.T) (hosttest.Option, *atomic.Int64) {
	var syncs atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.HasSuffix(op.Path, ".log") {
				syncs.Add(1)
			}
		}
		return nil
	}))
	return hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open("db", pebblestore.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}), &syncs
}

// TestFsyncs counts fsyncs of the write-ahead log on disk: k sequential steps cost k + 1, by handlers or bodies; a
// wake costs 1 without a step and 2 with one.
func TestFsyncs(t *testing.T) {
	counted, syncs := countedStore(t)
	l := newLab(t, counted)
	l.Finish(l.begin("count", 1)) // the module is compiled
	for _, k := range []int{0, 1, 5} {
		from := syncs.Load()
		l.Finish(l.begin("count", k))
		want(t, syncs.Load()-from, int64(k+1))
	}
	if _, err := l.Upload(ctx, "", hosttest.Build(t, "testdata/bench")); err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{0, 1, 5} { // the first one compiles
		from := syncs.Load()
		l.Finish(l.begin("bench", plan{Kind: "body", Steps: k}))
		if k > 0 {
			want(t, syncs.Load()-from, int64(k+1))
		}
	}
	id := l.begin("iterate", 2)
	l.Settle()
	from := syncs.Load()
	l.Advance(3 * time.Second)
	want(t, syncs.Load()-from, 2)
	from = syncs.Load()
	l.Advance(3 * time.Second)
	want(t, syncs.Load()-from, 1)
	want(t, l.Finish(id).Status, host.Completed)
}

// TestFsyncsOfSignals: accepting a signal costs one fsync, including what a waiting run does with it. The start of a
// run up to its first wait costs one.
func TestFsyncsOfSignals(t *testing.T) {
	counted, syncs := countedStore(t)
	p := newPrims(t, counted)
	count := func(what string, most int64, f func()) {
		t.Helper()
		from := syncs.Load()
		f()
		p.Settle()
		if n := syncs.Load() - from; n > most || n == 0 {
			t.Errorf("%s costs %d fsyncs, want at most %d", what, n, most)
		}
	}
	var id string
	begin := func() { id = p.begin("receive", 1) }
	begin()
	p.Settle() // the module is compiled
	count("a start", 1, begin)
	count("a signal", 2, func() {
		if err := p.Signal(ctx, id, "go", "text"); err != nil {
			t.Fatal(err)
		}
	})
}
