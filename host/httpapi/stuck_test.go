package httpapi_test

import (
	"net/http/httptest"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// A client that follows a stuck run gets that status, and later its end.
func TestFollowStuck(t *testing.T) {
	ctx, h := t.Context(), hosttest.New(t)
	wasm := workflows["sleeping"](wasmgen.New(0)).Export(abi.ExportRun).Bytes()
	if _, err := h.Upload(ctx, "sleeping", wasm); err != nil {
		t.Fatal(err)
	}
	makeStuck(t, h, []string{"r"})
	server := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Local: "local"}))
	defer server.Close()
	c, err := client.New(server.URL, client.WithToken("local"))
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for _, err := range c.FollowJournal(ctx, "r", client.Newest, 0) { // to its end, as nothing else comes
		entries++
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range c.FollowOutput(ctx, "r", "", -1) {
		t.Error("a chunk of output:", err)
	}
	var seen []client.Status
	for r, err := range c.FollowRun(ctx, "r") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, r.Status)
		if r.Status == client.Stuck {
			if err := c.Terminate(ctx, "r"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if entries != 3 || len(seen) != 2 || seen[1] != client.Terminated {
		t.Errorf("%d entries, then %v", entries, seen)
	}
}
