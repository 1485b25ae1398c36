package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFollowSurvivesARestart breaks the connection of a command that follows a run after the first answer, and
// answers 503 once. The command reports this and continues where it was. A server that was never reachable is not
// retried.
func TestFollowSurvivesARestart(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch n := asked.Add(1); {
		case !strings.HasSuffix(r.URL.Path, "/logs"):
			_, _ = io.WriteString(w, `{"id":"r","status":"sleeping"}`)
		case n == 2:
			_, _ = io.WriteString(w, "id: 0\nevent: log\ndata: {\"index\":0,\"text\":\"a line\"}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case n == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("Last-Event-ID") == "0":
			_, _ = io.WriteString(w, "event: end\ndata: {}\n\n")
		default:
			t.Errorf("request %d goes on behind %q", n, r.Header.Get("Last-Event-ID"))
		}
	}))
	defer s.Close()
	t.Setenv("WFHOST_TOKEN", "x")
	code, out, errs := command("--server", s.URL, "logs", "r", "-f")
	if code != exitOK || strings.Count(out, "a line") != 1 || !strings.Contains(errs, "trying again") || !strings.Contains(errs, "is back") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	s.Close()
	if code, _, errs := command("--server", s.URL, "logs", "r", "-f"); code != exitError || strings.Contains(errs, "trying again") {
		t.Errorf("%d %q", code, errs)
	}
}

// TestWaitSurvivesARestart kills the server during the first wait for a result. The command reports this and gets the
// result from the next server. A missing run and a server that was never reachable are reported at once.
func TestWaitSurvivesARestart(t *testing.T) {
	t.Setenv("WFHOST_TOKEN", "x")
	for _, c := range []struct {
		args   []string
		before int64 // requests before the wait
	}{{[]string{"result", "r", "--wait"}, 1}, {[]string{"start", "w", "--id", "r", "--wait"}, 1}} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			switch wait := strings.HasSuffix(r.URL.Path, "/result"); {
			case wait != (n > c.before):
				t.Errorf("%v: request %d is %s", c.args, n, r.URL.Path)
			case !wait:
				_, _ = io.WriteString(w, `{"id":"r","status":"running"}`)
			case n <= c.before+2: // the HTTP client may repeat one
				panic(http.ErrAbortHandler)
			case n == c.before+3:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				_, _ = io.WriteString(w, `"done"`)
			}
		}))
		code, out, errs := command(append([]string{"--server", s.URL}, c.args...)...)
		if code != exitOK || out != "\"done\"\n" || strings.Count(errs, "trying again") != 1 || !strings.Contains(errs, "is back") {
			t.Errorf("%v: %d %q %q", c.args, code, out, errs)
		}
		s.Close()
		if code, _, errs := command(append([]string{"--server", s.URL}, c.args...)...); code != exitError || strings.Contains(errs, "trying again") {
			t.Errorf("%v without a server: %d %q", c.args, code, errs)
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	if code, _, errs := command("--server", s.URL, "result", "r", "--wait"); code != exitNotFound || strings.Contains(errs, "trying again") {
		t.Errorf("%d %q", code, errs)
	}
}
