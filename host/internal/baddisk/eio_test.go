package baddisk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// Which operations of the disk fail; with -every=1, each does. Pebble frees the memory of a failed store, some 20 MB,
// only when the process ends, so `make disk-faults` runs several processes, each with its own first operation.
var (
	stride = flag.Int("every", 29, "let every n-th operation of the disk fail, in a run of its own")
	first  = flag.Int("first", 0, "the first operation that fails")
)

// faults makes one operation of a disk fail, or all from that one on.
type faults struct {
	at    int  // the number of the operation, from 0
	after bool // and all that follow

	mu     sync.Mutex
	n      int
	healed bool
	failed string // the operation that failed first
}

// MaybeError implements errorfs.Injector.
func (f *faults) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed {
		return nil
	}
	n := f.n
	f.n++
	if n == f.at || f.after && n > f.at {
		if f.failed == "" {
			f.failed = fmt.Sprintf("operation %d, %v", n, op)
		}
		return errorfs.ErrInjected
	}
	return nil
}

// String implements errorfs.Injector.
func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s (all that follow: %v)", f.failed, f.after)
}

func (f *faults) heal() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
	return f.n
}

// workload starts runs, lets time pass, reads, cancels and deletes, until an operation is refused.
func (k *known) workload(m *machine, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := func(id, workflow string, n int) error {
		id = prefix + id
		_, err := m.Start(ctx, workflow, n, host.WithRunID(id))
		if err == nil {
			k.Started[id] = true
		}
		return err
	}
	for i := range 3 {
		if err := start(fmt.Sprint("iterate-", i), "iterate", 2); err != nil {
			return err
		}
	}
	if err := start("large", "payload", 60_000); err != nil { // half a MiB of JSON, which is stored as a blob
		return err
	}
	if err := m.advance(4 * time.Second); err != nil {
		return err
	}
	if err := k.learn(m); err != nil {
		return err
	}
	if err := m.Replay(ctx, prefix+"iterate-1"); err != nil {
		return err
	}
	if err := m.Retentions().Set(ctx, host.Retention{Workflow: "payload", Completed: time.Minute}); err != nil {
		return err
	}
	if err := m.advance(4 * time.Second); err != nil {
		return err
	}
	return k.learn(m)
}

// image returns a file system with a store that has the module.
func image(t *testing.T, cache string) *vfs.MemFS {
	fs := vfs.NewCrashableMem()
	m := newMachine(t, cache)
	if err := m.open("db", pebblestore.Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.UploadAll(t.Context(), "", guest(t), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	k := newKnown()
	if err := k.workload(m, "old-"); err != nil { // so that there are tables, and runs
		t.Fatal(err)
	}
	k.check(m)
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	return fs.CrashClone(vfs.CrashCloneCfg{})
}

// TestEveryOperationFails has each operation of the disk fail once, from opening the store to closing it, and then
// all operations from each one on. After a restart everything acknowledged is there, every run continues to its end,
// and nothing panics or hangs.
func TestEveryOperationFails(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	cache := t.TempDir()
	base := image(t, cache)
	total := faultAt(t, base, cache, &faults{at: -1})
	t.Logf("%d operations", total)
	if total < 100 {
		t.Fatal("the workload does too little")
	}
	for _, after := range []bool{false, true} {
		tried, stopped := 0, 0
		for at := *first; at < total; at += *stride {
			f := &faults{at: at, after: after}
			faultAt(t, base, cache, f)
			tried++
			if f.failed != "" {
				stopped++
			}
		}
		t.Logf("all that follow fail: %v; %d of %d operations failed", after, stopped, tried)
	}
}

// faultAt opens the store of an image, runs the workload while the disk fails, and opens the store again on a working
// disk that has lost half of the unsynced data. It returns the number of disk operations.
func faultAt(t *testing.T, base *vfs.MemFS, cache string, f *faults) int {
	t.Helper()
	fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	m, k := newMachine(t, cache), newKnown()
	m.faults = f
	var err error
	within(t, "opening", f, func() { err = m.open("db", pebblestore.Options{FS: errorfs.Wrap(fs, f)}) })
	if err == nil {
		within(t, "the workload", f, func() { err = k.workload(m, "new-") })
	}
	clean(t, f, err)
	clean(t, f, m.close())
	n := f.heal()
	again := newMachine(t, cache)
	again.clock.Set(m.clock.Now())
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(f.at), 1))})
	if err := again.open("db", pebblestore.Options{FS: after}); err != nil {
		t.Fatalf("%s failed, and now the store cannot be opened: %v", f.failed, err)
	}
	k.check(again)
	if err := again.advance(time.Hour); err != nil {
		t.Fatal(err)
	}
	k.check(again)
	for id := range k.Started {
		r, err := again.Get(t.Context(), id)
		if err != nil || r.Status != host.Completed {
			t.Fatalf("%s failed, and %s is %s (%s): %v", f.failed, id, r.Status, r.Reason, err)
		}
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// clean checks the error that a caller got: the fault itself, or that the store has failed.
func clean(t *testing.T, f *faults, err error) {
	t.Helper()
	told := []error{host.ErrStoreFailed, host.ErrClosed}
	if err != nil && !strings.Contains(err.Error(), "injected error") && // some of Pebble's errors contain others only as text
		!slices.ContainsFunc(told, func(want error) bool { return errors.Is(err, want) }) {
		t.Fatalf("%s failed, and the caller is told: %v", f.failed, err)
	}
	if err != nil && f.failed == "" {
		t.Fatalf("nothing failed, and the caller is told: %v", err)
	}
}
