package page

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestHosts shows a cluster of two hosts whose clocks differ, one of them drained, and a server that is alone.
func TestHosts(t *testing.T) {
	s := newSite(t, WithoutLogin())
	has(t, s.get("/hosts"), "This server is alone")
	if strings.Contains(s.get("/"), ">Hosts</a>") {
		t.Error("a server that is alone offers the view")
	}
	s.Page = New(clustered(t), WithoutLogin(), WithClock(clock.System()))
	s.prefix = ""
	page := s.get("/hosts")
	has(t, page, "Host State Partitions Clock Last beat Release Joined Address", "a this page takes runs 64 of 64", "Which 0–63 right now v1",
		"b drained 0 of 64 -1.5s", "v2")
	has(t, s.get("/"), "Hosts")
	if strings.Contains(page, "no owner") {
		t.Error(page)
	}
}

// clustered opens a host that owns all partitions, beside a drained one whose clock is late.
func clustered(t *testing.T) *host.Host {
	t.Helper()
	data := memstore.New()
	data.NowMs = func() int64 { return clock.System().Now().UnixMilli() }
	h, err := host.Open(ctx, host.Config{Store: data.Open(), Cluster: &host.Cluster{Name: "a", Release: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	ran := make(chan error, 1)
	go func() { ran <- h.Run(t.Context()) }()
	t.Cleanup(func() { <-ran })
	now := clock.System().Now().UnixMilli()
	if _, _, err := data.Open().Join(ctx, store.Member{Name: "b", Release: "v2", Draining: true, Drained: true, SkewMs: -1500, JoinedUnixMs: now,
		BeatUnixMs: now}, time.Minute); err != nil {
		t.Fatal(err)
	}
	for late := clock.System().NewTimer(time.Minute); ; {
		list, err := h.Hosts()
		if err == nil && len(list) == 2 && len(list[0].Partitions) == host.NumPartitions {
			return h
		}
		select {
		case <-late.C():
			t.Fatalf("%+v %v", list, err)
		case <-clock.System().NewTimer(5 * time.Millisecond).C():
		}
	}
}

// TestBrowserHosts looks at the hosts on a desktop and on a phone.
func TestBrowserHosts(t *testing.T) {
	b := watched(t)
	s := newSite(t, WithoutLogin())
	s.Page = New(clustered(t), WithoutLogin(), WithClock(clock.System()))
	srv := httptest.NewServer(s)
	defer srv.Close()
	for _, width := range []int64{1280, 390} {
		if err := chromedp.Do(b, emulate(width, "light")); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(b, chromedp.Navigate(srv.URL+"/hosts")); err != nil {
			t.Fatal(err)
		}
		wrong, err := chromedp.Run(b, chromedp.Evaluate[[]string](look))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wrong {
			t.Errorf("%d wide: %s", width, w)
		}
	}
}

// TestRanges writes numbers shortly.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		list []int
		want string
	}{{nil, ""}, {[]int{5}, "5"}, {[]int{0, 1, 2, 3, 7, 9, 10}, "0–3, 7, 9–10"}} {
		if got := ranges(c.list); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
}
