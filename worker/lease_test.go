package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/worker"
)

// double is a stand-in for a server: it answers requests by the last part of their path, and offers one attempt.
type double struct {
	handedOut bool
	beat      func() (*http.Response, error)
	got       chan string // received results, after "complete" or "fail"
}

func answer(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (d *double) RoundTrip(r *http.Request) (*http.Response, error) {
	switch verb := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; verb {
	case "attempts":
		if !d.handedOut {
			d.handedOut = true
			return answer(http.StatusOK, `{"items":[{"lease":"L","handler":"charge","timeout_ms":3600000}]}`)
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "heartbeat":
		return d.beat()
	default:
		body, _ := io.ReadAll(r.Body)
		d.got <- verb + " " + string(body)
		return answer(http.StatusNoContent, "")
	}
}

// within runs a worker with a lease of 30 s against a double.
func within(t *testing.T, d *double, fn func(ctx context.Context, _ charge) (string, error), then func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.got = make(chan string, 1)
		w := worker.New("http://server", local)
		w.Client, w.Logger = &http.Client{Transport: d}, slog.New(slog.DiscardHandler)
		worker.Handle(w, "charge", fn)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		then()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// sleep waits for the whole duration, even if the attempt is cancelled.
func sleep(d time.Duration) {
	late, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	<-late.Done()
}

// TestBeatsAfterCancel has a function take longer than its lease to end after a cancel: it keeps its lease, and its
// result is reported.
func TestBeatsAfterCancel(t *testing.T) {
	beats := 0
	d := &double{beat: func() (*http.Response, error) { beats++; return answer(http.StatusOK, `{"cancelled":true}`) }}
	within(t, d, func(ctx context.Context, _ charge) (string, error) {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), worker.ErrCancelled) {
			t.Error(context.Cause(ctx))
		}
		sleep(2 * time.Minute)
		return "undone", nil
	}, func() {
		if got := <-d.got; got != `complete "undone"` || beats < 12 {
			t.Errorf("%s after %d heartbeats", got, beats)
		}
	})
}

// TestCutOff disconnects a worker: it knows that its lease is lost when the lease has expired, although the server
// cannot tell it.
func TestCutOff(t *testing.T) {
	beats := 0
	d := &double{beat: func() (*http.Response, error) {
		beats++
		if beats <= 2 { // at 10 s and 20 s
			return answer(http.StatusOK, `{}`)
		}
		return nil, errors.New("no route to host")
	}}
	within(t, d, func(ctx context.Context, _ charge) (string, error) {
		began := time.Now()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), worker.ErrLost) {
			t.Error(context.Cause(ctx))
		}
		d.got <- "lost after " + time.Since(began).String()
		return "", nil
	}, func() {
		if got := <-d.got; got != "lost after 50s" {
			t.Errorf("%s, want 20 s and a lease", got)
		}
		synctest.Wait()
		if len(d.got) > 0 {
			t.Error("something is handed in:", <-d.got)
		}
	})
}
