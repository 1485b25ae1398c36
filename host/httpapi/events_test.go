package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestEvents follows all runs of a namespace over HTTP, with a token of that namespace.
func TestEvents(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("nap").I64(60_000).Call(abi.FnSleep).Drop().I32(0))
	server := httptest.NewServer(a.API)
	defer server.Close()
	reads, err := client.New(server.URL, client.WithToken(a.token(host.TokenSpec{Namespace: "default", Scopes: []host.Scope{host.ScopeRead}})))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(server.URL, client.WithToken(local))
	if err != nil {
		t.Fatal(err)
	}
	var seen []client.Status
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begins := func() {
		if _, err := admin.Start(ctx, "w", nil, client.StartOptions{ID: "r"}); err != nil {
			t.Error(err)
		}
	}
	for r, err := range reads.FollowRuns(ctx, "w", begins) {
		if len(seen) > 0 && seen[len(seen)-1] == client.Terminated {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the end is %+v: %v", r, err)
			}
			break
		}
		if err != nil || r.ID != "r" {
			t.Fatal(r, err)
		}
		if len(seen) > 0 && seen[len(seen)-1] == r.Status {
			continue
		}
		switch seen = append(seen, r.Status); r.Status {
		case client.Sleeping:
			if err := admin.Terminate(ctx, "r"); err != nil {
				t.Fatal(err)
			}
		case client.Terminated:
			cancel()
		}
	}
	if len(seen) < 2 || seen[len(seen)-1] != client.Terminated {
		t.Errorf("the run was %v", seen)
	}
	nobody, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range nobody.FollowRuns(t.Context(), "", nil) {
		if !errors.Is(err, client.ErrDenied) {
			t.Error("without a token:", err)
		}
	}
}
