package host_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// TestBodiesWaitForTheirTurn has more bodies ask for an instance than may wait for one in memory, while their server
// hangs. The excess ones wait as keys, report what they wait for, can be controlled, and run, also after a crash.
func TestBodiesWaitForTheirTurn(t *testing.T) {
	const bodies, offered = 400, 256
	var hangs atomic.Bool
	hangs.Store(true)
	answer := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
	}))
	defer s.Close()
	f := newMixed(t, little())
	_, err := f.Upload(ctx, "fetches", fetchingLarge(s.URL), host.AllowHTTP(s.URL))
	do(t, err)
	id := func(i int) string { return fmt.Sprintf("body%03d", i) }
	for i := range bodies {
		_, err := f.Start(ctx, "fetches", nil, host.WithRunID(id(i)))
		do(t, err)
	}
	g := &restarts{Host: f.Host, t: t}
	waiting := func() (list []string) {
		for r, err := range g.Runs(ctx, host.Query{Status: host.Waiting}) {
			do(t, err)
			list = append(list, r.ID)
		}
		return list
	}
	settled := func() bool { // 256 bodies are queued and some are in flight; at first, their runs are kept in memory
		return g.Stats().Attempts >= bodies-offered-64 && len(waiting()) >= bodies-offered-64
	}
	g.eventually(settled)
	g.Crash()
	g.eventually(settled)
	list := waiting()
	for _, id := range list {
		if r, err := g.Get(ctx, id); err != nil ||
			r.Status == host.Waiting && !strings.HasPrefix(r.Reason, `step "body" waits for an instance`) {
			t.Errorf("%s is %s: %s %v", r.ID, r.Status, r.Reason, err)
		}
	}
	cancelled, terminated := list[0], list[1]
	_, err = g.Cancel(ctx, cancelled)
	do(t, err)
	do(t, g.Terminate(ctx, terminated))
	hangs.Store(false)
	close(answer)
	for i := range bodies {
		want := host.Completed
		switch id(i) {
		case cancelled:
			want = host.Cancelled
		case terminated:
			want = host.Terminated
		}
		if r := g.Finish(id(i)); r.Status != want {
			t.Errorf("%s: %s %s", r.ID, r.Status, r.Reason)
		}
		if n := has(t, g.Host.Host, id(i), store.KindBody); n > 2 {
			t.Errorf("%s: %d bodies", id(i), n)
		}
	}
	if n := g.Stats().Attempts; n != 0 {
		t.Errorf("%d attempts wait in the end", n)
	}
}
