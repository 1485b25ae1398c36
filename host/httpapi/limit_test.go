package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// stalled is a client that does not read: its first write blocks until it is released.
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

// heldBy returns the growth of the heap while a number of clients request a path and do not read the answer. It
// checks that no write exceeds writePiece.
func (a *api) heldBy(t *testing.T, clients int, path string) int {
	t.Helper()
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
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1"+path, nil)
			r.Header.Set("Authorization", "Bearer "+local)
			w := &stalled{ResponseRecorder: httptest.NewRecorder(), began: began, release: release}
			a.ServeHTTP(w, r)
			done <- w.largest
		}()
	}
	for range clients {
		<-began
	}
	held := heap() - before
	close(release)
	for range clients {
		if n := <-done; n > writePiece {
			t.Errorf("a write of %d bytes", n)
		}
	}
	t.Logf("%d clients of %s hold %d KiB", clients, path, held>>10)
	return held
}

// TestClientsThatDoNotRead requests a long journal, and lists of large items, twenty times without reading the
// answers.
func TestClientsThatDoNotRead(t *testing.T) {
	const clients, signals, runs = 20, 8, 100
	const most = 2 << 20 // of a page
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("nap").I64(1<<40).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	payload := `"` + strings.Repeat("x", abi.MaxPayloadBytes-2) + `"`
	for i := range signals { // four of each name, which is as many as fit
		name := string("st"[i%2])
		a.is(a.call(local, http.MethodPost, "/v1/runs/r/signals/"+name, payload), http.StatusAccepted, "")
	}
	if held := a.heldBy(t, clients, "/v1/runs/r/journal"); held > clients*signals*abi.MaxPayloadBytes/4 {
		t.Errorf("clients that do not read a journal hold %d MiB", held>>20)
	}
	attributes := map[string]string{}
	for i := range abi.MaxAttributes {
		attributes[fmt.Sprint("key", i)] = strings.Repeat("x", abi.MaxAttributeBytes)
	}
	ctx := context.Background()
	for i := range runs {
		_, err := a.h.Start(ctx, "w", nil, host.WithRunID(fmt.Sprint("r", i)), host.WithAttributes(attributes))
		if err == nil {
			_, err = a.h.Schedules().Create(ctx, fmt.Sprint("s", i), host.ScheduleSpec{Workflow: "w", When: "0 0 1 1 *",
				Input: []byte(payload[:60<<10] + `"`)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/runs?limit=1000", "/v1/schedules?limit=1000", "/v1/timers?limit=1000"} {
		if held := a.heldBy(t, clients, path); held > clients*most {
			t.Errorf("clients that do not read %s hold %d MiB", path, held>>20)
		}
		seen := map[string]bool{}
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			w := a.call(local, http.MethodGet, path+next, "")
			var page struct {
				Items []struct {
					ID  string `json:"id"`
					Run string `json:"run"`
				} `json:"items"`
				Next string `json:"next"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Body.Len() > most {
				t.Fatal(w.Body.Len(), err)
			}
			for _, x := range page.Items {
				seen[x.ID+x.Run] = true
			}
			next = ""
			if page.Next != "" {
				next = "&cursor=" + page.Next
			}
		}
		if len(seen) < runs {
			t.Errorf("%s: %d of %d are in the pages", path, len(seen), runs)
		}
	}
}

// deaf is a client that reads nothing: its writes block until the deadline.
type deaf struct {
	*httptest.ResponseRecorder
	leave      context.CancelFunc // the request
	began, cut chan struct{}
	over       sync.Once
}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	if at.Equal(longAgo) {
		d.over.Do(func() { close(d.cut) })
	}
	return nil
}

func (d *deaf) Write([]byte) (int, error) {
	d.began <- struct{}{}
	<-d.cut
	d.leave() // as net/http does
	return 0, os.ErrDeadlineExceeded
}

// TestBacklog has more bytes of answers pending than allowed: the answers that have waited longest are cut off, and
// clients that read get their answers.
func TestBacklog(t *testing.T) {
	const size, fit = 1 << 20, 4
	b := newBacklog(fit*size + size/2)
	answer := make([]byte, size)
	began, done := make(chan struct{}), make(chan int)
	var all []*deaf
	for i := range 10 {
		_, leave := context.WithCancel(t.Context())
		d := &deaf{ResponseRecorder: httptest.NewRecorder(), leave: leave, began: began, cut: make(chan struct{})}
		all = append(all, d)
		go func() {
			w, _, end := b.pace(d, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			_, err := w.Write(answer)
			end()
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			done <- i
		}()
		if <-began; i >= fit { // it fits only if the first one is cut off
			if first := <-done; first != i-fit {
				t.Fatalf("%d was cut off for %d", first, i)
			}
		}
	}
	rec := &recorder{ResponseRecorder: httptest.NewRecorder()}
	w, _, _ := b.pace(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if n, err := w.Write(answer); n != size || err != nil || rec.Body.Len() != size {
		t.Errorf("who reads gets %d bytes, %v", n, err)
	}
	<-done // for whom there was room until then
	for _, d := range all[len(all)-fit+1:] {
		_ = d.SetWriteDeadline(longAgo) // the usual one
		<-done
	}
	if b.bytes != 0 || len(b.of) != 0 {
		t.Errorf("left over: %d bytes, %d answers", b.bytes, len(b.of))
	}
}

// TestBacklogAfterACut: an answer that was cut off no longer counts, even if it continues to write.
func TestBacklogAfterACut(t *testing.T) {
	b := newBacklog(3 * writePiece)
	answer := make([]byte, 2*writePiece)
	client := func() *paced {
		rec := httptest.NewRecorder()
		return &paced{ResponseWriter: rec, control: http.NewResponseController(rec), backlog: b}
	}
	first, second := client(), client()
	b.enter(first, len(answer))
	b.enter(second, len(answer))
	if !first.cut {
		t.Fatal("the first one was not cut off")
	}
	b.leave(first)
	_, _ = first.Write(answer)
	b.leave(second)
	if b.bytes != 0 || len(b.of) != 0 {
		t.Errorf("left over: %d bytes, %d answers", b.bytes, len(b.of))
	}
}

// recorder notes the deadlines that it gets.
type recorder struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (r *recorder) SetReadDeadline(t time.Time) error  { r.read = append(r.read, t); return nil }
func (r *recorder) SetWriteDeadline(t time.Time) error { r.write = append(r.write, t); return nil }

// TestDeadlines writes an answer in several pieces: each piece has a deadline of its own. A body has a single
// deadline.
func TestDeadlines(t *testing.T) {
	rec := &recorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPut, "/", io.MultiReader(strings.NewReader("a"), strings.NewReader("b")))
	r.ContentLength = 10 * slowestUpload
	before := time.Now()
	w, r, end := newBacklog(maxBacklog).pace(rec, r)
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
	_, failing, _ = newBacklog(maxBacklog).pace(late, failing)
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
