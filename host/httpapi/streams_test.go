package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// stay makes a request that does not end by itself. It returns 0 once the request counts as a stream, and the status
// if it was refused.
func (a *api) stay(ctx context.Context, wg *sync.WaitGroup, s *streams, token, target string) (status int, said string) {
	a.t.Helper()
	before, w, done := s.count(), httptest.NewRecorder(), make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:7777"+target, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	wg.Go(func() {
		defer close(done)
		a.ServeHTTP(w, r)
	})
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for s.count() == before {
		select {
		case <-done:
			return w.Code, w.Body.String()
		case <-late.Done():
			a.t.Fatalf("%s is neither counted nor refused", target)
		default:
			runtime.Gosched()
		}
	}
	return 0, ""
}

// TestStreamsOfOneNamespace follows streams and waits for attempts with five tokens of one namespace, up to the limit
// of each. A token of another namespace, and one for all namespaces, can still use their limits.
func TestStreamsOfOneNamespace(t *testing.T) {
	for what, target := range map[string]string{"output": eventsPath + "?namespace=",
		"handlers": "/v1/handlers/charge/attempts?wait=1m&namespace="} {
		a := &api{t: t, h: hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) { _ = h.HandleRemote("charge") }))}
		a.API = New(a.h.Host, Access{Local: local, Streams: 16})
		a.upload("a", "w", nap())
		a.upload("b", "w", nap())
		s := map[string]*streams{"output": &a.streams, "handlers": &a.polls}[what]
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		token := func(namespace string) string {
			return a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeWork}, Namespace: namespace})
		}
		stay := func(token, namespace string) (n int, said string) {
			for range 4 { // a quarter
				status, text := a.stay(ctx, &wg, s, token, target+namespace)
				if status == 0 {
					n++
				} else if said = text; status != http.StatusTooManyRequests {
					t.Errorf("%s: %d %s", what, status, text)
				}
			}
			return n, said
		}
		all, said := 0, ""
		for range 5 {
			n, text := stay(token("a"), "a")
			all, said = all+n, text
		}
		if all != 8 || !strings.Contains(said, `the namespace \"a\" follow `+what+` 8 times`) {
			t.Errorf("%s: the tokens of a namespace follow %d times, and then are told %s", what, all, said)
		}
		for namespace, of := range map[string]string{"b": "b", "a": ""} {
			if n, said := stay(token(of), namespace); n != 4 {
				t.Errorf("%s: a token for namespace %q follows %d times, and then is told %s", what, of, n, said)
			}
		}
		cancel()
		wg.Wait()
		if s.all != 0 || len(s.by) != 0 {
			t.Errorf("%s: left over: %d %v", what, s.all, s.by)
		}
	}
}

// TestStreamsOfTheOnlyNamespace follows streams and waits for attempts with tokens of the default namespace. Together
// they may use the whole limit, until there is another namespace, whose tokens get their share as soon as there is
// room.
func TestStreamsOfTheOnlyNamespace(t *testing.T) {
	for what, target := range map[string]string{"output": eventsPath, "handlers": "/v1/handlers/charge/attempts?wait=1m"} {
		a := &api{t: t, h: hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) { _ = h.HandleRemote("charge") }))}
		a.API = New(a.h.Host, Access{Local: local, Streams: 16})
		a.upload("", "w", nap())
		s := map[string]*streams{"output": &a.streams, "handlers": &a.polls}[what]
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		token := func(namespace string) string {
			return a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeWork}, Namespace: namespace})
		}
		last, leave := context.WithCancel(ctx)
		for i := range 4 {
			one, in := token("default"), ctx
			if i == 3 {
				in = last
			}
			for range 4 { // a quarter
				if status, said := a.stay(in, &wg, s, one, target); status != 0 {
					t.Fatalf("%s: after %d streams %d %s", what, s.count(), status, said)
				}
			}
		}
		if status, said := a.stay(ctx, &wg, s, token("default"), target); status != http.StatusServiceUnavailable {
			t.Errorf("%s: beyond the limit of all: %d %s", what, status, said)
		}
		leave()
		for s.count() > 12 {
			runtime.Gosched()
		}
		a.upload("b", "w", nap())
		if status, said := a.stay(ctx, &wg, s, token("default"), target); status != http.StatusTooManyRequests {
			t.Errorf("%s: of two namespaces one has %d of 16, and then gets %d %s", what, s.count(), status, said)
		}
		b, in := token("b"), "?"
		if strings.Contains(target, "?") {
			in = "&"
		}
		if status, said := a.stay(ctx, &wg, s, b, target+in+"namespace=b"); status != 0 {
			t.Errorf("%s: the other namespace gets %d %s", what, status, said)
		}
		cancel()
		wg.Wait()
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
