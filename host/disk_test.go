package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// scarce is a file system with a limited number of free bytes.
type scarce struct {
	vfs.FS
	free *atomic.Uint64
}

func (s scarce) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: s.free.Load(), TotalBytes: 1 << 40}, nil
}

const mib = 1 << 20

// withDisk puts the store on a disk with the given number of free bytes.
func withDisk(t *testing.T, free uint64) (hosttest.Option, *atomic.Uint64) {
	left := &atomic.Uint64{}
	left.Store(free)
	fs := scarce{vfs.NewMem(), left}
	return hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open("db", pebblestore.Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}), left
}

// TestDiskReserve fills the disk while runs sleep and wait. New work is refused, but these runs continue to their
// ends and can be ended and deleted, also after a restart. When there is space again, new work is accepted.
func TestDiskReserve(t *testing.T) {
	disk, free := withDisk(t, 1<<30)
	var said []string
	p := newPrims(t, disk, hosttest.WithConfig(func(c *host.Config) {
		c.DiskReserve = 100 * mib
		c.Events.DiskChanged = func(s host.DiskState) { said = append(said, fmt.Sprint(s.Full, s.Free/mib, s.Reserve/mib)) }
	}))
	sleeper, waiting, doomed := p.begin("beside", 60), p.begin("receive", 1), p.begin("receive", 1)
	hooked := p.begin("hooked", "a-token-of-ones-own")
	p.Settle()
	free.Store(100*mib - 1)
	refused := func(what string, err error) {
		t.Helper()
		full, ok := errors.AsType[*host.DiskFullError](err)
		if !ok || !errors.Is(err, host.ErrDiskFull) || !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "the disk of db is") {
			t.Fatalf("%s with a full disk: %v", what, err)
		}
		want(t, full.Reserve, 100*mib)
		want(t, full.Free, 100*mib-1)
	}
	try := func() {
		t.Helper()
		_, err := p.Start(ctx, "beside", 1)
		refused("a start", err)
		refused("a signal", p.Signal(ctx, waiting, "go", "text"))
		_, err = p.Hooks().Deliver(ctx, "a-token-of-ones-own", []byte(`"x"`))
		refused("a delivery", err)
		_, err = p.Upload(ctx, "new", wasmgen.New(0).I32(0).Export("workflow_run").Bytes())
		refused("an upload", err)
		_, err = p.Restart(ctx, sleeper, "", "")
		refused("a restart", err)
	}
	try()
	p.Crash()
	try()
	if err := p.Terminate(ctx, doomed); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(ctx, doomed); err != nil {
		t.Fatal(err)
	}
	p.Advance(2 * time.Hour)
	want(t, p.status(sleeper), host.Completed)
	d, err := p.Disk()
	if err != nil || !d.Full || d.Path != "db" || d.Free != 100*mib-1 || d.Reserve != 100*mib || d.Total != 1<<40 {
		t.Fatalf("%+v %v", d, err)
	}
	free.Store(100*mib + 1000) // which is not yet enough
	if _, err := p.Start(ctx, "beside", 1); !errors.Is(err, host.ErrDiskFull) {
		t.Fatal(err)
	}
	free.Store(110 * mib)
	if err := p.Signal(ctx, waiting, "go", "text"); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, waiting), "text")
	if _, err := p.Hooks().Deliver(ctx, "a-token-of-ones-own", []byte(`"x"`)); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, hooked), "x")
	free.Store(100*mib + 1000)
	if _, err := p.Start(ctx, "receive", strings.Repeat("x", 1000)); !errors.Is(err, host.ErrDiskFull) {
		t.Fatalf("an input for which there is no room: %v", err)
	}
	p.begin("receive", 1)
	if got := fmt.Sprint(said); got != "[true 99 100 true 99 100 false 110 100]" { // of two hosts
		t.Error(got)
	}
}

// TestNoDisk has no reserve: the store does not report free space, or the reserve is disabled.
func TestNoDisk(t *testing.T) {
	if _, err := newPrims(t).Disk(); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	disk, _ := withDisk(t, 0)
	p := newPrims(t, disk, hosttest.WithConfig(func(c *host.Config) { c.DiskReserve = -1 }))
	p.begin("receive", 1)
	if d, err := p.Disk(); err != nil || d.Full || d.Reserve != 0 {
		t.Errorf("%+v %v", d, err)
	}
}

// reclaimer is a store on a disk that is full until deleted data is reclaimed.
type reclaimer struct {
	store.Store
	free, deleted *atomic.Uint64
}

func (r reclaimer) Disk() (store.Disk, error) {
	return store.Disk{Path: "db", Free: r.free.Load(), Total: 1 << 40}, nil
}

func (r reclaimer) Reclaim(context.Context) error {
	r.free.Add(r.deleted.Swap(0) * mib)
	return nil
}

// TestDiskGivesBackWhatWasDeleted has the store reclaim deleted data when its disk is full or nearly so, and not
// earlier: starts are accepted again without a restart.
func TestDiskGivesBackWhatWasDeleted(t *testing.T) {
	data := memstore.New()
	free, deleted := &atomic.Uint64{}, &atomic.Uint64{}
	free.Store(200 * mib)
	p := newPrims(t, hosttest.WithStore(func() store.Store { return reclaimer{data.Open(), free, deleted} }),
		hosttest.WithConfig(func(c *host.Config) { c.DiskReserve = 100 * mib }))
	look := func(is, left uint64) {
		t.Helper()
		free.Store(is * mib)
		deleted.Store(50)
		if err := host.LookAtDisk(ctx, p.Host.Host); err != nil {
			t.Fatal(err)
		}
		want(t, deleted.Load(), left)
	}
	look(200, 50)
	look(199, 0)
	free.Store(90 * mib)
	if _, err := p.Start(ctx, "receive", 1); !errors.Is(err, host.ErrDiskFull) {
		t.Fatal(err)
	}
	look(90, 0)
	p.begin("receive", 1)
}
