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

// TestFsyncs counts the fsyncs of the write-ahead log on the store on disk: k sequential steps cost k + 1, a wake
// without a step 1, with one step 2.
func TestFsyncs(t *testing.T) {
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
	l := newLab(t, hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open("db", pebblestore.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}))
	l.Finish(l.begin("count", 1)) // the module is compiled
	for _, k := range []int{0, 1, 5} {
		from := syncs.Load()
		l.Finish(l.begin("count", k))
		want(t, syncs.Load()-from, int64(k+1))
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
