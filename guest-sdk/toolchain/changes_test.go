package toolchain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// twice returns the first field that an object has twice, "" if none.
func twice(t *testing.T, object []byte) string {
	t.Helper()
	d, found := json.NewDecoder(bytes.NewReader(object)), map[json.Token]bool{}
	for first := true; first || d.More(); first = false {
		key, err := d.Token() // the brace, then each key
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		var value json.RawMessage
		if first {
			continue
		} else if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		if found[key] {
			return key.(string)
		}
		found[key] = true
	}
	return ""
}

// testChanges has a body fail with the error of a request that was changed, and compares what becomes of the step.
func testChanges(t *testing.T, wasm []byte) {
	gone := httptest.NewServer(nil)
	gone.Close()
	const denied = "http://denied.example"
	for _, c := range []struct {
		how, url string
		attempts int
		waited   time.Duration // the back-off has 1 s and 2 s
		is, says string        // the type, and a part of the message
	}{
		{"as it is", gone.URL, 3, 3 * time.Second, "", "refused"},
		{"fatal", gone.URL, 1, 0, "", "refused"},
		{"later", gone.URL, 3, 2 * time.Hour, "", "refused"},
		{"kind", gone.URL, 3, 3 * time.Second, "Unreachable", "refused"},
		{"message", gone.URL, 3, 3 * time.Second, "", `nobody "listens"`},
		{"outside", gone.URL, 3, 3 * time.Second, "Outside", "refused"},
		{"both", gone.URL, 3, 3 * time.Second, "Outside", "refused"},
		{"as it is", denied, 1, 0, "", "not allowed"},
		{"again", denied, 3, 3 * time.Second, "", "not allowed"},
	} {
		t.Run(c.how+" "+c.says, func(t *testing.T) {
			h := hosttest.New(t)
			if _, err := h.Upload(t.Context(), "changes", wasm, host.AllowHTTP(gone.URL)); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Start(t.Context(), "changes", map[string]string{"url": c.url, "how": c.how}, host.WithRunID("run")); err != nil {
				t.Fatal(err)
			}
			h.Finish("run")
			_, err := h.ResultRaw(t.Context(), "run")
			failed, ok := errors.AsType[*host.RunError](err)
			if !ok {
				t.Fatal(err)
			}
			f := failed.Failure
			if f.Code != abi.StepFailed || f.Type != c.is || !strings.Contains(f.Message, c.says) || f.Attempts != c.attempts || twice(t, failed.JSON) != "" {
				t.Errorf("the run has failed with %s", failed.JSON)
			}
			if waited := h.Clock.Now().Sub(hosttest.Epoch); waited != c.waited {
				t.Errorf("it took %v, want %v", waited, c.waited)
			}
			for e, err := range h.Journal(t.Context(), "run", 0) {
				if err != nil {
					t.Fatal(err)
				}
				var one abi.Error
				if e.Kind != store.KindAttemptFailed {
					continue
				} else if err := json.Unmarshal(e.Data, &one); err != nil || !strings.Contains(one.Message, c.says) {
					t.Errorf("an attempt failed with %s: %v", e.Data, err)
				}
			}
		})
	}
}
