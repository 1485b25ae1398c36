package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// fleet is a cluster of hosts over one store in memory, in real time.
type fleet struct {
	t       *testing.T
	data    *memstore.Data
	hosts   []*node
	effects atomic.Int64
}

type node struct {
	h      *host.Host
	store  *mortal
	client *client.Client
	stop   func()
}

// mortal is a store that can be cut off from its data.
type mortal struct {
	*memstore.Store
	cut atomic.Bool
}

var errCut = fmt.Errorf("%w: cut off", store.ErrUnavailable)

func (m *mortal) Commit(ctx context.Context, groups []store.Group) error {
	if m.cut.Load() {
		return errCut
	}
	return m.Store.Commit(ctx, groups)
}

func (m *mortal) Acquire(ctx context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	if m.cut.Load() {
		return nil, errCut
	}
	return m.Store.Acquire(ctx, p, owner, ttl)
}

type mortalMember struct {
	store.Membership
	of *mortal
}

func (m *mortal) Join(ctx context.Context, x store.Member, ttl time.Duration) (store.Membership, store.View, error) {
	if m.cut.Load() {
		return nil, store.View{}, errCut
	}
	ms, v, err := m.Store.Join(ctx, x, ttl)
	return mortalMember{ms, m}, v, err
}

func (m mortalMember) Beat(ctx context.Context, x store.Member) (store.View, error) {
	if m.of.cut.Load() {
		return store.View{}, errCut
	}
	return m.Membership.Beat(ctx, x)
}

const clusterLease = time.Second

func newFleet(t *testing.T, n int) *fleet {
	f := &fleet{t: t, data: memstore.New()}
	f.data.NowMs = func() int64 { return clock.System().Now().UnixMilli() }
	for range n {
		f.add()
	}
	for slices.Contains(f.settle(), 0) { // the first one had all
		pause(20 * time.Millisecond)
	}
	return f
}

func (f *fleet) add() *node {
	f.t.Helper()
	front := NewFront("", nil)
	server := httptest.NewServer(front)
	x := &node{store: &mortal{Store: f.data.Open()}}
	h, err := host.Open(context.Background(), host.Config{Store: x.store, Cluster: &host.Cluster{Name: fmt.Sprint("host-", len(f.hosts)),
		Address: server.URL, Key: []byte(strings.Repeat("k", 32)), Lease: clusterLease, Weight: 1}})
	if err != nil {
		f.t.Fatal(err)
	}
	h.HandleRawStep("effect", func(_ context.Context, in []byte) ([]byte, error) {
		f.effects.Add(1)
		return in, nil
	})
	front.Open(New(h, Access{Local: local}))
	x.h = h
	x.client, err = client.New(server.URL, client.WithToken(local), client.WithPatience(10*time.Second))
	if err != nil {
		f.t.Fatal(err)
	}
	running, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	var stopped atomic.Bool
	x.stop = func() {
		if !stopped.CompareAndSwap(false, true) {
			return
		}
		cancel()
		if err := errors.Join(<-ran, h.Close()); err != nil {
			f.t.Error(err)
		}
		server.Close()
	}
	f.t.Cleanup(x.stop)
	f.hosts = append(f.hosts, x)
	return x
}

// settle waits until live hosts own all partitions, each one of them, and returns how many each has.
func (f *fleet) settle(without ...*node) []int {
	f.t.Helper()
	for began := clock.System().Now(); ; {
		var counts, all []int
		for _, x := range f.hosts {
			if slices.Contains(without, x) {
				continue
			}
			ps := x.h.Partitions()
			counts, all = append(counts, len(ps)), append(all, ps...)
		}
		slices.Sort(all)
		if len(all) == host.NumPartitions && len(slices.Compact(all)) == host.NumPartitions {
			return counts
		}
		if clock.System().Now().Sub(began) > 30*time.Second {
			f.t.Fatalf("the hosts own %v partitions", counts)
		}
		pause(5 * time.Millisecond)
	}
}

func pause(d time.Duration) { <-clock.System().NewTimer(d).C() }

func (f *fleet) any() *client.Client { return f.hosts[rand.IntN(len(f.hosts))].client }

func (f *fleet) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// naps uploads workflows that sleep, named by how long.
func (f *fleet) naps(times ...string) {
	f.t.Helper()
	for _, d := range times {
		m := wasmgen.New(0)
		m.Text("nap").Text(d).Call(abi.FnSleepText).Drop()
		_, err := f.hosts[rand.IntN(len(f.hosts))].h.Upload(f.t.Context(), "nap-"+d, m.I32(0).Export(abi.ExportRun).Bytes())
		f.ok(err)
	}
}

// TestClusterAnswersAnywhere sends each request about a run to a host at random.
func TestClusterAnswersAnywhere(t *testing.T) {
	f := newFleet(t, 3)
	ctx := t.Context()
	f.naps("1h")
	for i := range 40 {
		id := fmt.Sprint("run-", i)
		r, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{ID: id})
		f.ok(err)
		if r.ID != id {
			t.Fatalf("%+v", r)
		}
		again, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{ID: id})
		f.ok(err)
		if !again.Existed {
			t.Errorf("%s was started twice", id)
		}
		if _, err := f.any().Start(ctx, "nap-1h", 2, client.StartOptions{ID: id}); !isCode(err, "conflict") {
			t.Errorf("another input: %v", err)
		}
		n, err := f.any().Wake(ctx, id, "nap")
		f.ok(err)
		if n != 1 {
			t.Errorf("%s: %d sleeps were ended", id, n)
		}
		r, err = f.any().Wait(ctx, id)
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
		var kinds []string
		for e, err := range f.any().FollowJournal(ctx, id, -1, 0) {
			f.ok(err)
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) < 3 || kinds[0] != "started" || kinds[len(kinds)-1] != "completed" {
			t.Error(kinds)
		}
	}
	drawn, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{})
	f.ok(err)
	f.ok(f.any().Terminate(ctx, drawn.ID))
	f.ok(f.any().Delete(ctx, drawn.ID))
	if _, err := f.any().Get(ctx, drawn.ID); !isCode(err, "not_found") {
		t.Error(err)
	}
}

func isCode(err error, code string) bool {
	p, ok := errors.AsType[*client.Error](err)
	return ok && p.Code == code
}

// TestClusterLosesAHost cuts a host off from the store: others take its runs over, and it comes back. Then one leaves.
func TestClusterLosesAHost(t *testing.T) {
	f := newFleet(t, 3)
	ctx := t.Context()
	f.naps("2s")
	for i := range 60 {
		_, err := f.any().Start(ctx, "nap-2s", nil, client.StartOptions{ID: fmt.Sprint("run-", i)})
		f.ok(err)
	}
	gone := f.hosts[1]
	had := len(gone.h.Partitions())
	gone.store.cut.Store(true)
	began := clock.System().Now()
	counts := f.settle(gone)
	if took := clock.System().Now().Sub(began); took > clusterLease+time.Second+500*time.Millisecond || had == 0 {
		t.Errorf("the runs of %d partitions were without a host for %v", had, took)
	}
	t.Logf("after the loss: %v", counts)
	left := []*client.Client{f.hosts[0].client, f.hosts[2].client}
	for i := range 60 {
		r, err := left[i%2].Wait(ctx, fmt.Sprint("run-", i))
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
	}
	for n := 0; len(gone.h.Partitions()) > 0; n++ {
		if pause(10 * time.Millisecond); n > 200 {
			t.Fatalf("the host that is cut off thinks that it owns %v", gone.h.Partitions())
		}
	}
	gone.store.cut.Store(false)
	for len(gone.h.Partitions()) == 0 { // after the ten seconds for which newcomers wait
		pause(50 * time.Millisecond)
	}
	f.settle()
	f.hosts[2].stop()
	f.settle(f.hosts[2])
}
