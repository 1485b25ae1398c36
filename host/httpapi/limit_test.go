package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// stalled is a client that does not read: its first write waits until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	began, release chan struct{}
	largest        int
}

func (s *stalled) Write(b []byte) (int, error) {
	if s.largest == 0 {
		s.began <- struct{}{}
		<-s.release
	}
	s.largest = max(s.largest, len(b))
	return len(b), nil
}

// TestFinding_ClientsThatDoNotRead asks for a long journal twenty times, and reads none of the answers.
func TestFinding_ClientsThatDoNotRead(t *testing.T) {
	const clients, signals = 20, 8
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	payload := `"` + strings.Repeat("x", abi.MaxPayloadBytes-2) + `"`
	for i := range signals { // of two names, each of which takes four of them
		name := string("st"[i%2])
		a.is(a.call(local, http.MethodPost, "/v1/runs/r/signals/"+name, payload), http.StatusAccepted, "")
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	began, release, done := make(chan struct{}), make(chan struct{}), make(chan int)
	for range clients {
		go func() {
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1/v1/runs/r/journal", nil)
			r.Header.Set("Authorization", "Bearer "+local)
			w := &stalled{ResponseRecorder: httptest.NewRecorder(), began: began, release: release}
			a.ServeHTTP(w, r)
			done <- w.largest
		}()
	}
	for range clients {
		<-began
	}
	if held := heap() - before; held > clients*signals*abi.MaxPayloadBytes/4 {
		t.Errorf("%d clients that do not read hold %d MiB", clients, held>>20)
	}
	close(release)
	for range clients {
		if n := <-done; n > writePiece {
			t.Errorf("a write of %d bytes", n)
		}
	}
}

// recorder notes the deadlines that it gets.
type recorder struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (r *recorder) SetReadDeadline(t time.Time) error  { r.read = append(r.read, t); return nil }
func (r *recorder) SetWriteDeadline(t time.Time) error { r.write = append(r.write, t); return nil }

// TestDeadlines writes an answer of several pieces: each has its time. A body has one time.
func TestDeadlines(t *testing.T) {
	rec := &recorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPut, "/", io.MultiReader(strings.NewReader("a"), strings.NewReader("b")))
	r.ContentLength = 10 * slowestUpload
	before := time.Now()
	w, r, end := pace(rec, r)
	if len(rec.read) != 1 || rec.read[0].Before(before.Add(bodyTime)) || len(rec.write) != 1 || !rec.write[0].IsZero() {
		t.Fatalf("at the beginning: %v %v", rec.read, rec.write)
	}
	allowBody(r, uploadPattern)
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "ab" {
		t.Fatal(b, err)
	}
	if n := len(rec.read); n < 3 || rec.read[1].Before(before.Add(bodyTime+10*time.Second)) || !rec.read[1].Equal(rec.read[2]) || !rec.read[n-1].IsZero() {
		t.Errorf("the body: %v", rec.read)
	}
	late := &recorder{ResponseRecorder: httptest.NewRecorder()}
	failing := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", iotest.ErrReader(os.ErrDeadlineExceeded))
	_, failing, _ = pace(late, failing)
	if _, err := io.ReadAll(failing.Body); !errors.Is(err, os.ErrDeadlineExceeded) || late.read[len(late.read)-1].IsZero() ||
		late.Header().Get("Connection") != "close" {
		t.Errorf("a body that does not come may be waited for for ever: %v %v", late.read, err)
	}
	big := bytes.Repeat([]byte("x"), 3*writePiece+1)
	if n, err := w.Write(big); n != len(big) || err != nil || len(rec.write) != 5 || rec.Body.Len() != len(big) {
		t.Errorf("%d %v, %d deadlines", n, err, len(rec.write))
	}
	w.(http.Flusher).Flush()
	end()
	if last := rec.write[len(rec.write)-1]; len(rec.write) != 7 || last.Before(before.Add(writeTime)) {
		t.Errorf("at the end: %v", rec.write)
	}
}

// TestStreams follows more runs than allowed.
func TestStreams(t *testing.T) {
	s := streams{limit: 8, by: map[string]int{}}
	status := func(err error) int {
		p, _ := errors.AsType[*Problem](err)
		if p == nil {
			return 0
		}
		return p.Status
	}
	one, two, mine := &caller{name: "one"}, &caller{name: "two"}, &caller{name: "local", exempt: true}
	var leave []func()
	for _, c := range []struct {
		by   *caller
		want int
	}{{one, 0}, {one, 0}, {one, 429}, {two, 0}, {mine, 0}, {mine, 0}, {mine, 0}, {mine, 0}, {mine, 0}, {mine, 503}, {two, 503}} {
		l, err := s.enter(c.by)
		if status(err) != c.want {
			t.Fatalf("%s: %v, want %d", c.by.name, err, c.want)
		}
		if err == nil {
			leave = append(leave, l)
		}
	}
	for _, l := range leave {
		l()
	}
	if s.all != 0 || len(s.by) != 0 {
		t.Errorf("left over: %d %v", s.all, s.by)
	}
	a := newAPI(t, Access{Streams: 4})
	a.upload("", "w", wasmgen.New(0).I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	token := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}})
	for range 3 { // each leaves
		w := a.call(token, http.MethodGet, "/v1/runs/r/output", "", "Accept", "text/event-stream")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "event: end") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	a.streams.by = map[string]int{"token " + idOf(t, a, func(host.Token) bool { return true }): 1}
	a.is(a.call(token, http.MethodGet, "/v1/runs/r/output", "", "Accept", "text/event-stream"), http.StatusTooManyRequests, "busy")
}
