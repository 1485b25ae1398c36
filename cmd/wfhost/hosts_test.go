package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestHosts lists, drains and undrains a host, beside one that is there for a while and then leaves.
func TestHosts(t *testing.T) {
	data := memstore.New()
	data.NowMs = func() int64 { return time.Now().UnixMilli() }
	h, err := host.Open(t.Context(), host.Config{Store: data.Open(), Cluster: &host.Cluster{Name: "a", Lease: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	running, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	defer func() { stop(); <-ran }()
	other, _, err := data.Open().Join(t.Context(), store.Member{Name: "b/c", Weight: 1}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(httpapi.New(h, httpapi.Access{Open: true}))
	defer srv.Close()
	hosts := func(want int, args ...string) (out string) {
		t.Helper()
		code, out, errs := command(append([]string{"--server", srv.URL, "hosts"}, args...)...)
		if code != want {
			t.Errorf("%q: %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	says := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("it does not say %q: %s", p, text)
			}
		}
	}
	says(hosts(exitOK), "HOST", "LAST BEAT", "has answered", "b/c")
	says(hosts(exitOK, "--format", "ids"), "a\nb/c\n")
	says(hosts(exitOK, "drain", "a", "--wait"), "drained, has answered")
	if n := len(h.Partitions()); n != 0 {
		t.Errorf("it still owns %d partitions", n)
	}
	says(hosts(exitOK, "undrain", "a", "--format", "json"), `"name": "a"`, `"partitions": []`)
	says(hosts(exitNotFound, "drain", "x"), `the cluster has no live host "x"; it has "a", "b/c"`)
	says(hosts(exitError, "drain", "b/c"), `the host "b/c" has no address for requests`)
	if err := other.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for strings.Contains(hosts(exitOK), "b/c") { // until the next beat
	}
	says(hosts(exitConflict, "drain", "a"), `"a" is the last host of the cluster that takes partitions`)
}
