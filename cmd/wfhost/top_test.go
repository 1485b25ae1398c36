package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// cancelling cancels a context at the first write.
type cancelling struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (w *cancelling) Write(b []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(b)
}

// TestTopInterrupted interrupts top after its first refresh. With -n 3 this is an error, since two refreshes are
// missing.
func TestTopInterrupted(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	for n, want := range map[string]struct {
		code int
		says string
	}{"1": {exitOK, ""}, "3": {exitInterrupted, "wfhost: interrupted after 1 of 3 looks\n"}} {
		ctx, cancel := context.WithCancel(context.Background())
		out, errs := &cancelling{cancel: cancel}, &bytes.Buffer{}
		code := execute(ctx, []string{"--server", s.URL, "top", "-n", n, "--every", "1h", "--format", "json"},
			stdio{in: strings.NewReader(""), out: out, err: errs})
		if code != want.code || errs.String() != want.says || strings.Count(out.String(), "lateness_ms") != 1 {
			t.Errorf("-n %s: %d %q %q", n, code, out, errs)
		}
		cancel()
	}
	if err := new(topCmd).interrupted(1); err != nil { // that is how it ends
		t.Error(err)
	}
}
