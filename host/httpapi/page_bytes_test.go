package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// indexes returns the indices of all items of a list, and the number of its pages.
func (a *api) indexes(path string) (all []int, pages int) {
	a.t.Helper()
	for next := ""; pages == 0 || next != ""; pages++ {
		w := a.call(local, http.MethodGet, path+next, "")
		var page struct {
			Items []struct{ Index int }
			Next  string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Body.Len() > maxStreamed+2*abi.MaxPayloadBytes {
			a.t.Fatal(w.Body.Len(), err)
		}
		for _, x := range page.Items {
			all = append(all, x.Index)
		}
		next = ""
		if page.Next != "" {
			next = "&cursor=" + page.Next
		}
	}
	return all, pages
}

// TestStreamedPages reads a log in portions, and output in pages of at most maxStreamed.
func TestStreamedPages(t *testing.T) {
	const lines, chunks = 3*logPortion + 1, 20
	m := wasmgen.New(0)
	m.Pages = 20
	for i := range lines {
		m.I32(1).Text(fmt.Sprint("line ", i)).Call(abi.FnLog).Drop()
	}
	for range chunks {
		m.Text("t").I32(0).I32(abi.MaxPayloadBytes).Call(abi.FnEmit).Drop()
	}
	a := newAPI(t, Access{})
	a.upload("", "w", m.I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	a.h.Finish("r")
	for _, c := range []struct {
		path             string
		items, min, most int // pages
	}{{"/v1/runs/r/logs?limit=1000", lines, 1, 1}, {"/v1/runs/r/logs?limit=20", lines, 3, 3}, {"/v1/runs/r/logs?limit=49", lines, 1, 1},
		{"/v1/runs/r/output?limit=1000", chunks, 2, 3}} {
		all, pages := a.indexes(c.path)
		if len(all) != c.items || pages < c.min || pages > c.most {
			t.Errorf("%s: %d items in %d pages", c.path, len(all), pages)
		}
		for i, at := range all {
			if i != at {
				t.Errorf("%s: item %d is at %d", c.path, at, i)
			}
		}
	}
	if w := a.call(local, http.MethodGet, "/v1/runs/none/logs", ""); w.Code != http.StatusNotFound {
		t.Errorf("the log of no run: %d %s", w.Code, w.Body)
	}
	events := a.call(local, http.MethodGet, "/v1/runs/r/logs", "", "Accept", eventStream).Body.String()
	if n := strings.Count(events, "event: log"); n != lines {
		t.Errorf("%d lines were followed", n)
	}
}

// TestMakers prepares the maximum number of concurrent lists: another list waits, but other answers do not.
func TestMakers(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).I32(0))
	var leave []func()
	for range maxMakers {
		l, err := a.makers.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/v1/runs", nil)
	r.Header.Set("Authorization", "Bearer "+local)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.is(w, http.StatusServiceUnavailable, "cancelled")
	a.is(a.call(local, http.MethodGet, "/v1/runs:count", ""), http.StatusOK, "")
	leave[0]()
	leave[0]() // once
	for range 3 {
		a.is(a.call(local, http.MethodGet, "/v1/runs", ""), http.StatusOK, "")
	}
	if len(a.makers) != maxMakers-1 {
		t.Errorf("%d lists are being made", len(a.makers))
	}
}

// telling says when something is written.
type telling struct {
	http.ResponseWriter
	began chan<- struct{}
}

func (w *telling) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *telling) Write(b []byte) (int, error) {
	select {
	case w.began <- struct{}{}:
	default:
	}
	return w.ResponseWriter.Write(b)
}

// TestBacklogOfConnections has two clients request answers that exceed the limit together, and the buffers of a
// connection. The client that does not read is cut off, and sees that its answer is incomplete; the other one gets
// everything.
func TestBacklogOfConnections(t *testing.T) {
	const size = 32 << 20
	b, began, ended := newBacklog(size+size/2), make(chan struct{}, 1), make(chan error, 2)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w, _, end := b.pace(&telling{rw, began}, r)
		defer end()
		_, err := w.Write(make([]byte, size))
		ended <- err
	}))
	defer s.Close()
	ask := func() io.ReadCloser {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return res.Body
	}
	deaf := ask()
	<-began
	reads := ask()
	if n, err := io.Copy(io.Discard, reads); n != size || err != nil {
		t.Errorf("who reads gets %d bytes, %v", n, err)
	}
	one, two := <-ended, <-ended
	if (one == nil) == (two == nil) {
		t.Errorf("the writes end with %v and %v", one, two)
	}
	if n, err := io.Copy(io.Discard, deaf); n >= size || err == nil {
		t.Errorf("who does not read gets %d bytes, %v", n, err)
	}
	_, _ = deaf.Close(), reads.Close() // they were read
}
