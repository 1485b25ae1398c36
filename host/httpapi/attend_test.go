package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// patience is how long a test waits for a request that should end.
const patience = 20 * time.Second

// attendedAPI is a server with a sleeping run, and the clock by which it rechecks its callers.
func attendedAPI(t *testing.T, access Access) (*api, *clock.Fake) {
	t.Helper()
	a := &api{t: t, h: hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) { _ = h.HandleRemote("charge") }))}
	access.Local = local
	a.API = New(a.h.Host, access)
	c := clock.NewFake(time.Unix(0, 0))
	a.clock = c
	a.upload("", "w", wasmgen.New(0).I32(1).Text("begins").Call(abi.FnLog).Drop().Text("t").Text("x").Call(abi.FnEmit).Drop().
		Text("nap").I64(86_400_000).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	a.h.Settle()
	return a, c
}

// last makes a request, calls meanwhile while the request is in progress, advances the clock to the next recheck, and
// returns the answer.
func (a *api) last(c *clock.Fake, method, target, token string, body io.Reader, accept string, meanwhile func()) *httptest.ResponseRecorder {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:7777"+target, body)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	w, done := httptest.NewRecorder(), make(chan struct{})
	waiting(ctx, c, false) // for requests before
	go func() {
		defer close(done)
		a.ServeHTTP(w, r)
	}()
	waiting(ctx, c, true)
	meanwhile()
	c.Advance(lookAgainEvery)
	<-done
	if ctx.Err() != nil {
		a.t.Errorf("%s %s has not ended: %d %s", method, target, w.Code, w.Body)
	}
	return w
}

// waiting blocks until a caller waits for the clock, or until none does if somebody is false.
func waiting(ctx context.Context, c *clock.Fake, somebody bool) {
	for {
		if _, ok := c.Next(); ok == somebody || ctx.Err() != nil {
			return
		}
		runtime.Gosched()
	}
}

// lasting are the requests that may take long, with their Accept headers.
var lasting = map[string]string{
	eventsPath: eventStream, "/v1/runs/r": eventStream, "/v1/runs/r/journal": eventStream, "/v1/runs/r/logs": eventStream,
	"/v1/runs/r/output": eventStream, "/v1/runs/r/result?wait=1m": "", "/v1/runs/r/journal?from=9&wait=1m": "",
	"/v1/handlers/charge/attempts?wait=1m": "",
}

// TestRequestsEndWithTheirToken follows streams, waits, and asks for attempts with a token that is then revoked, or
// expires by the host's clock.
func TestRequestsEndWithTheirToken(t *testing.T) {
	for target, accept := range lasting {
		for _, how := range []string{"revoked", "expired"} {
			a, c := attendedAPI(t, Access{})
			spec := host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeWork}, TTL: 30 * time.Second}
			text, token, err := a.h.Tokens().Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			w := a.last(c, http.MethodGet, target, text, nil, accept, func() {
				if how == "revoked" {
					a.is(a.call(local, http.MethodDelete, "/v1/tokens/"+token.ID, ""), http.StatusNoContent, "")
				} else {
					a.h.Advance(30 * time.Second) // less than any of the requests waits
				}
			})
			said := w.Body.String()
			if b := w.Header().Get("X-Accel-Buffering"); (b == "no") != (accept != "") {
				t.Errorf("%s: a proxy is told %q about buffering", target, b)
			}
			if at := strings.LastIndex(said, "event: "); accept != "" {
				said = said[max(at, 0):]
				if !strings.HasPrefix(said, "event: error\n") {
					t.Errorf("%s, %s: the stream ends with %s", target, how, said)
				}
			} else if w.Code != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d", target, how, w.Code)
			}
			if !strings.Contains(said, `"code":"unauthorized"`) || !strings.Contains(said, "the request has ended: token is not accepted: ") {
				t.Errorf("%s, %s: %s", target, how, said)
			}
		}
	}
}

// TestRequestsGoOnWithTheirToken follows a stream as a caller who is rechecked: the stream continues while the
// caller's rights are unchanged, and ends when they are reduced.
func TestRequestsGoOnWithTheirToken(t *testing.T) {
	asked, answer := make(chan string, 1), make(chan host.Token)
	a, c := attendedAPI(t, Access{Authenticate: func(r *http.Request) (host.Token, error) {
		if r.Header.Get("Authorization") == "Bearer "+local {
			return host.Token{ID: "local", Scopes: host.Scopes}, nil
		}
		b, err := io.ReadAll(r.Body)
		asked <- string(b)
		return <-answer, err
	}})
	may := func(scopes ...host.Scope) host.Token { return host.Token{ID: "x", Scopes: scopes} }
	go func() { <-asked; answer <- may(host.ScopeRead, host.ScopeRun) }()
	w := a.last(c, http.MethodGet, "/v1/runs/r", "x", nil, eventStream, func() {
		for range 3 {
			c.Advance(lookAgainEvery)
			if body := <-asked; body != "" {
				t.Errorf("asked again with the body %q", body)
			}
			answer <- may(host.ScopeRun, host.ScopeRead, host.ScopeOperate)
			waiting(t.Context(), c, true)
		}
		go func() { <-asked; answer <- may(host.ScopeRead) }()
	})
	if !strings.Contains(w.Body.String(), "event: error\n") || !strings.Contains(w.Body.String(), "may do less") {
		t.Errorf("the stream ends with %s", w.Body)
	}
}

// TestBodyOfARevokedToken sends bodies that are incomplete when the token is revoked: the answer says so, whoever
// reads the body.
func TestBodyOfARevokedToken(t *testing.T) {
	for pattern, contentType := range map[string]string{importPattern: archiveType, "PUT /v1/workflows/w/versions": "application/wasm",
		"POST /v1/workflows/w/runs": "application/json", "POST /v1/runs/r/signals/s": "application/json"} {
		bodyOfARevokedToken(t, pattern, contentType)
	}
}

func bodyOfARevokedToken(t *testing.T, pattern, contentType string) {
	t.Helper()
	a, c := attendedAPI(t, Access{})
	server := httptest.NewServer(a.API)
	defer server.Close()
	text, token, err := a.h.Tokens().Create(t.Context(), host.TokenSpec{Scopes: host.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waiting(ctx, c, false) // for requests before
	body, more := io.Pipe()
	defer func() { _ = more.Close() }()
	method, path, _ := strings.Cut(pattern, " ")
	r, err := http.NewRequestWithContext(ctx, method, server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+text)
	r.Header.Set("Content-Type", contentType)
	go func() {
		_, _ = more.Write([]byte("x"))
		waiting(ctx, c, true)
		if err := a.h.Tokens().Revoke(ctx, token.ID); err != nil {
			t.Error(err)
		}
		c.Advance(lookAgainEvery)
		<-ctx.Done()
		_ = more.CloseWithError(ctx.Err()) // a client whose answer is lost would wait for the end of its body
	}()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusUnauthorized || !strings.Contains(string(said), "the request has ended: ") {
		t.Errorf("%s: %d %s %v", pattern, res.StatusCode, said, err)
	}
}

// TestAnswerOfARevokedToken revokes the rights of a reader before its answer begins, and in the middle of the answer.
func TestAnswerOfARevokedToken(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	begun, w := httptest.NewRecorder(), httptest.NewRecorder()
	a := &answered{ResponseWriter: begun, of: ctx}
	if _, err := a.Write([]byte("a part")); err != nil {
		t.Fatal(err)
	}
	gone := problem(http.StatusUnauthorized, "unauthorized", "gone")
	end(gone)
	if _, err := a.Write([]byte("of it")); !errors.Is(err, gone) || !a.cut || begun.Body.String() != "a part" {
		t.Errorf("in the middle: %v, cut %t, %s", err, a.cut, begun.Body)
	}
	a = &answered{ResponseWriter: w, of: ctx}
	a.WriteHeader(http.StatusOK)
	if _, err := a.Write([]byte("all of it")); !errors.Is(err, gone) || a.cut || w.Code != http.StatusUnauthorized ||
		!strings.Contains(w.Body.String(), `"code":"unauthorized"`) || strings.Contains(w.Body.String(), "of it") {
		t.Errorf("before it: %v, cut %t, %d %s", err, a.cut, w.Code, w.Body)
	}
}
