package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestRepeated repeats requests with their idempotency keys after the run has ended: each gets its first answer.
func TestRepeated(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("nap").I64(60_000).Call(abi.FnSleep).Drop().I32(0))
	start := func() string {
		return a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r","input":1}`).Body.String()
	}
	signal := func() int {
		return a.call(local, http.MethodPost, "/v1/runs/r/signals/s", `1`, "Idempotency-Key", "k").Code
	}
	start()
	a.h.Settle()
	if code := signal(); code != http.StatusAccepted {
		t.Fatal(code)
	}
	a.h.Settle()
	a.h.Advance(time.Minute)
	a.h.Settle()
	if code := signal(); code != http.StatusAccepted {
		t.Errorf("the signal is %d after the end", code)
	}
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/signals/s", `1`, "Idempotency-Key", "other"), http.StatusConflict, "terminal")
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r","input":1}`), http.StatusOK, "")
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r","input":2}`), http.StatusConflict, "conflict")
}
