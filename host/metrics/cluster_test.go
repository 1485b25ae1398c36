package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// clustered is a cluster over a store in memory, by the machine's clock.
type clustered struct {
	t       *testing.T
	data    *memstore.Data
	aheadMs atomic.Int64 // the clock of the store
}

// leashed is a store whose beats can be made to fail.
type leashed struct {
	*memstore.Store
	cut  atomic.Bool
	hold sync.Mutex // beats wait for it
}

type leashedMember struct {
	store.Membership
	of *leashed
}

func (s *leashed) Join(ctx context.Context, m store.Member, ttl time.Duration) (store.Membership, store.View, error) {
	if s.cut.Load() {
		return nil, store.View{}, store.ErrUnavailable
	}
	x, v, err := s.Store.Join(ctx, m, ttl)
	return leashedMember{x, s}, v, err
}

func (m leashedMember) Beat(ctx context.Context, x store.Member) (store.View, error) {
	if m.of.cut.Load() {
		return store.View{}, store.ErrUnavailable
	}
	m.of.hold.Lock()
	defer m.of.hold.Unlock()
	return m.Membership.Beat(ctx, x)
}

func newCluster(t *testing.T) *clustered {
	c := &clustered{t: t, data: memstore.New()}
	c.data.NowMs = func() int64 { return clock.System().Now().UnixMilli() + c.aheadMs.Load() }
	return c
}

// add adds a host, which stop ends in order.
func (c *clustered) add(name string) (h *host.Host, s *leashed, stop func()) {
	c.t.Helper()
	s = &leashed{Store: c.data.Open()}
	var peer atomic.Pointer[host.Host]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n host.PeerNotice
		to := peer.Load()
		if to == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if _, err := to.VerifyPeer(r, &struct{}{}); err != nil || json.NewDecoder(r.Body).Decode(&n) != nil {
			c.t.Errorf("notice to %s: %v", name, err)
		}
		to.Noticed(n)
	}))
	c.t.Cleanup(server.Close)
	h, err := host.Open(ctx, host.Config{Store: s, Cluster: &host.Cluster{Name: name, Lease: time.Second, Weight: 1, Address: server.URL,
		Key: []byte(strings.Repeat("k", 32))}})
	if err != nil {
		c.t.Fatal(err)
	}
	peer.Store(h)
	running, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.CompareAndSwap(false, true) {
			cancel()
			<-ran
			_ = h.Close()
		}
	}
	c.t.Cleanup(stop)
	return h, s, stop
}

// cluster has a host be alone, get company, and lose it in two ways.
func (w *world) cluster() {
	w.t.Helper()
	for name := range w.scrape() {
		if strings.HasPrefix(name, "wfhost_cluster_") {
			w.t.Errorf("a host that is alone has the series %s", name)
		}
	}
	c := newCluster(w.t)
	a, first, _ := c.add("a")
	w.m.Watch(a)
	defer w.m.Watch(w.Host.Host)
	stats := func() host.ClusterStats {
		s, err := a.ClusterStats()
		if err != nil {
			w.t.Fatal(err)
		}
		w.scrape()
		return s
	}
	w.until("the first host owns all", func() bool { s := stats(); return s.Moved == host.NumPartitions && s.Unowned == 0 })
	if s := stats(); s.Hosts != 1 || s.TakenOver != 0 || s.Lease != time.Second || s.Margin <= 0 || s.Margin >= s.Lease {
		w.t.Errorf("%+v", s)
	}
	b, life, _ := c.add("b")
	w.until("the second host owns some", func() bool { return stats().Hosts == 2 && len(b.Partitions()) > 3 })
	life.cut.Store(true)
	w.until("it is taken for dead, and its partitions are taken over", func() bool {
		s := stats()
		return s.Hosts == 1 && s.TakenOver > 3 && len(a.Partitions()) == host.NumPartitions
	})
	took := stats()
	if s, err := b.ClusterStats(); err != nil || s.Margin != 0 || s.Hosts != 0 || s.TakenOver != 0 {
		w.t.Errorf("the host that is cut off: %+v %v", s, err)
	}
	third, _, stop := c.add("c")
	w.until("a third host owns some", func() bool { return len(third.Partitions()) > 3 })
	first.hold.Lock() // it next sees a view without the third
	stop()
	first.hold.Unlock()
	w.until("the first one has them again", func() bool { s := stats(); return s.TakenOver+s.Moved > took.TakenOver+took.Moved+3 })
	if s := stats(); s.TakenOver != took.TakenOver || s.Moved <= took.Moved {
		w.t.Errorf("a host has ended in order: %+v, before %+v", s, took)
	}
	c.aheadMs.Store(-1200)
	w.until("the clocks differ", func() bool { return stats().Skew > time.Second })
	for _, r := range []host.ForwardResult{host.ForwardAnswered, host.ForwardAnswered, host.ForwardRefused} {
		a.CountForward(r)
	}
	stats()
	text := scrapeText(w.t, w.m)
	for _, line := range []string{`wfhost_cluster_forwards_total{result="answered"} 2`, `wfhost_cluster_forwards_total{result="failed"} 0`,
		fmt.Sprintf(`wfhost_cluster_partitions_acquired_total{cause="takeover"} %d`, took.TakenOver), "wfhost_cluster_hosts 1",
		"wfhost_cluster_lease_seconds 1"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			w.t.Errorf("there is no line %s", line)
		}
	}
}
