package pebblestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

var (
	crashImages = flag.Int("crash.images", 400, "how many images of a disk whose power was cut are looked at")
	crashSeed   = flag.Uint64("crash.seed", 1, "of the first workload")
)

// The size of one workload: with 500 changes, logs and tables are created, replaced and compacted several times.
const (
	crashChanges = 500
	crashRuns    = 12
	flushEvery   = 40 // changes
)

// unsynced lists how many percent of the unsynced data an image has.
var unsynced = []int{0, 10, 50, 100}

// image is what was found on the disk after a power cut.
type image struct {
	what        string // for people
	least, most int    // number of changes that had been acknowledged, and that had begun
	said        string // what the store holds, by its digest
	damaged     string
}

// crashes runs a workload on a disk and takes images of the disk.
type crashes struct {
	t       *testing.T
	seed    uint64
	disk    *vfs.MemFS
	s       *Store
	model   *memstore.Store
	parts   map[store.PartitionID][2]store.Partition
	random  *rand.Rand
	wanted  int // images
	every   int // take an image at every n-th operation of the file system
	changes []string

	begun, acknowledged atomic.Int64
	operations          atomic.Int64

	mu     sync.Mutex
	images []image
}

// TestCrashImages cuts the power at file system operations of a random workload, with some of the unsynced data on
// the disk, and again during the recovery of such images. Each image can be opened, has every acknowledged change and
// no partial change, and its indexes match its runs.
func TestCrashImages(t *testing.T) {
	if testing.Short() {
		t.Skip("slow; and an image that is cut while it is opened is looked at by whatever goroutine of Pebble comes by")
	}
	looked := 0
	for seed := *crashSeed; looked < *crashImages; seed++ {
		c := &crashes{t: t, seed: seed, wanted: *crashImages - looked, every: 1}
		if *crashImages < 10_000 {
			c.every = 7 // so that a few images cover the whole workload
		}
		c.run()
		looked += len(c.images)
		c.judge()
		if t.Failed() {
			break
		}
	}
	t.Logf("%d images, from seed %d on", looked, *crashSeed)
}

// run makes the changes.
func (c *crashes) run() {
	c.disk, c.random = vfs.NewCrashableMem(), rand.New(rand.NewPCG(c.seed, 1))
	c.model, c.parts = memstore.New().Open(), map[store.PartitionID][2]store.Partition{}
	var err error
	c.s, err = Open("db", Options{FS: logfs.New(errorfs.Wrap(c.disk, errorfs.InjectorFunc(c.operation)), "db", 1<<20)})
	c.do(err)
	c.changes = append(c.changes, c.say(c.model))
	for i := range crashChanges {
		c.begun.Store(int64(i + 1))
		c.change(i)
		c.changes = append(c.changes, c.say(c.model))
		if now := c.say(c.s); now != c.changes[i+1] {
			c.t.Fatalf("seed %d: the store is not as the model after change %d", c.seed, i)
		}
		c.acknowledged.Store(int64(i + 1))
	}
	c.do(c.s.Close())
}

func (c *crashes) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("seed %d: %v", c.seed, err)
	}
}

// operation is called before each operation of the file system.
func (c *crashes) operation(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || c.operations.Add(1)%int64(c.every) != 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, percent := range unsynced {
		if len(c.images) >= c.wanted {
			return nil
		}
		x := image{what: fmt.Sprintf("at operation %d, %d of %s, with %d %% of what was not synced", c.operations.Load(), op.Kind, op.Path, percent),
			least: int(c.acknowledged.Load())}
		fs := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(c.seed, uint64(len(c.images))))})
		x.most = int(c.begun.Load())
		c.look(x, fs, len(c.images)%20 == 0)
	}
	return nil
}

// look opens an image and records what it holds. If it is to be cut again, the power is cut once more while it is
// being opened.
func (c *crashes) look(x image, fs *vfs.MemFS, again bool) {
	var under vfs.FS = fs
	if again {
		random := rand.New(rand.NewPCG(c.seed, uint64(len(c.images))))
		under = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && len(c.images) < c.wanted && random.IntN(3) == 0 {
				second := x
				second.what += fmt.Sprintf(", and again before %d of %s in recovery", op.Kind, op.Path)
				c.look(second, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced[random.IntN(len(unsynced))], RNG: random}), false)
			}
			return nil
		}))
	}
	s, err := Open("db", Options{FS: logfs.New(under, "db", 1<<20)})
	if err != nil {
		x.damaged = err.Error()
		c.images = append(c.images, x)
		return
	}
	x.said = c.say(s)
	if len(c.images)%4 == 0 {
		check := newChecker(c.t.Context(), s, false)
		if err := check.all(); err != nil || len(check.report.Problems) > 0 {
			x.damaged = fmt.Sprint(err, check.report.Problems)
		}
	}
	if err := s.Close(); err != nil {
		x.damaged += " close: " + err.Error()
	}
	c.images = append(c.images, x)
}

// judge compares the images with the model.
func (c *crashes) judge() {
	for _, x := range c.images {
		most := min(x.most, len(c.changes)-1)
		if x.damaged == "" && slices.Contains(c.changes[x.least:most+1], x.said) {
			continue
		}
		c.t.Errorf("seed %d, %s: %d changes were acknowledged, %d had begun: %s", c.seed, x.what, x.least, x.most, x.damaged)
		if at := slices.Index(c.changes, x.said); at >= 0 {
			c.t.Errorf("it holds what was there after %d", at)
		}
	}
}

// key returns one of the runs.
func (c *crashes) key(i int) store.RunKey {
	return store.RunKey{Namespace: store.NamespaceID(i % 2), ID: fmt.Sprint("r", i%crashRuns)}
}

// change makes a change, first in the model: an image may have it as soon as it has begun.
func (c *crashes) change(i int) {
	ctx := c.t.Context()
	both := func(do func(s store.Store) error) {
		c.do(do(c.model))
		c.do(do(c.s))
	}
	switch n := c.random.IntN(20); {
	case i == 0:
		both(func(s store.Store) error { _, err := s.Namespace(ctx, "other", true); return err })
	case i%flushEvery == flushEvery-1:
		c.do(c.s.db.Flush())
	case n == 0:
		wasm := bytes.Repeat([]byte{byte(i)}, 1+c.random.IntN(100_000))
		both(func(s store.Store) error {
			_, err := s.Modules().Put(ctx, wasm, store.ModuleInfo{Size: int64(len(wasm))})
			return err
		})
		both(func(s store.Store) error {
			_, err := s.Modules().AddVersions(ctx, []store.VersionSpec{{Workflow: fmt.Sprint("w", i%5), Module: sha256.Sum256(wasm)}})
			return err
		})
	case n == 1:
		both(func(s store.Store) error {
			return s.SetRetention(ctx, store.Retention{Workflow: fmt.Sprint("w", i%3), CompletedMs: int64(i % 2 * 1000)})
		})
	case n == 2:
		hash := store.Digest(sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
		both(func(s store.Store) error { return s.Tokens().Add(ctx, store.Token{Hash: hash, Name: "t"}) })
	default:
		c.commit(i)
	}
}

// commit changes a run.
func (c *crashes) commit(i int) {
	ctx := c.t.Context()
	run := c.key(c.random.IntN(crashRuns))
	st, err := c.model.State(ctx, run)
	there := err == nil
	x := store.RunCommit{Run: run, Expect: st.Length}
	entry := store.Entry{Kind: store.KindStarted, Input: bytes.Repeat([]byte{byte(i)}, c.random.IntN(3000))}
	if c.random.IntN(15) == 0 {
		entry.Input = bytes.Repeat([]byte{byte(i % 3)}, abi.BlobBytes+1) // several runs may have the same
	}
	switch {
	case !there || st.Deleted:
		x.Create, x.Replace, x.Expect = true, there, 0
		st = store.RunState{Run: run, Workflow: fmt.Sprint("w", i%3), CreatedUnixMs: int64(i)}
	case c.random.IntN(12) == 0:
		x.Delete = true
		st.Deleted = c.random.IntN(2) == 0
	case c.random.IntN(12) == 0:
		x.Before, x.Expect = &store.IterationEnd{Iteration: st.Iteration, Expect: st.Length}, 0
		st.Iteration++
	}
	st.Status, st.WakeUnixMs, st.EndedUnixMs, st.UpdatedUnixMs = store.Status(1+c.random.IntN(10)), store.NoWake, 0, int64(i)
	switch {
	case x.Delete:
	case st.Status == store.Sleeping:
		st.WakeUnixMs = int64(c.random.IntN(1 << 40))
	case st.Status.Terminal():
		st.EndedUnixMs = int64(i)
	}
	if !x.Delete {
		entry.Seq = x.Expect
		x.Append, x.Output = []store.Entry{entry}, []store.Chunk{{Index: st.Output, Topic: "t", Data: []byte("d")}}
		st.Length, st.Output = x.Expect+1, st.Output+1
	}
	x.State = st
	c.commitBoth(x)
}

func (c *crashes) commitBoth(x store.RunCommit) {
	p := x.Run.Partition()
	if _, ok := c.parts[p]; !ok {
		a, err := c.model.Acquire(c.t.Context(), p, "a", 0)
		c.do(err)
		b, err := c.s.Acquire(c.t.Context(), p, "a", 0)
		c.do(err)
		c.parts[p] = [2]store.Partition{a, b}
	}
	for _, part := range c.parts[p] {
		c.do(part.Commit(c.t.Context(), []store.RunCommit{x}))
	}
}

// say returns a digest of everything that a store returns to readers.
func (c *crashes) say(s store.Store) string {
	ctx := context.WithoutCancel(c.t.Context())
	var b []byte
	for ns, err := range s.Namespaces(ctx) {
		c.do(err)
		b = append(b, ns.Name...)
		for v, err := range s.Modules().Versions(ctx, ns.ID, "") {
			c.do(err)
			v.CreatedUnixMs = 0
			b = store.AppendVersion(b, &v)
			_, err := s.Modules().Get(ctx, v.Module)
			c.do(err)
		}
		counts, err := s.Counts(ctx, ns.ID)
		c.do(err)
		slices.SortFunc(counts, func(x, y store.Count) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		b = fmt.Append(b, counts)
	}
	for i := range crashRuns {
		st, entries, err := s.Run(ctx, c.key(i))
		if err != nil {
			continue
		}
		b = store.AppendState(b, &st)
		for j := range entries {
			b = store.AppendEntry(b, &entries[j])
		}
		chunks, err := s.Output(ctx, c.key(i), 0, 1000)
		c.do(err)
		text, err := json.Marshal(chunks)
		c.do(err)
		b = append(b, text...)
	}
	kept, err := s.Retentions(ctx)
	c.do(err)
	b = fmt.Append(b, kept)
	for t, err := range s.Tokens().All(ctx) {
		c.do(err)
		b = store.AppendToken(b, &t)
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}
