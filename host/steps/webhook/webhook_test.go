package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/steps/webhook"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// The old secret is plain text, the new one has the format of Standard Webhooks.
var (
	key    = []byte("a key of at least 24 bytes")
	secret = []string{"another secret of 24 bytes", "whsec_" + base64.StdEncoding.EncodeToString(key)}
)

// call runs a workflow whose step calls a handler with options. It returns the run's last entry and its duration.
func call(t *testing.T, url, options string) (host.Entry, time.Duration) {
	t.Helper()
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		if err := webhook.Register(h, "charge", webhook.Config{URL: url, Secrets: func() ([]string, error) { return secret, nil }}); err != nil {
			t.Error(err)
		}
	}))
	m := wasmgen.New(0).Text("pay").Text("host/charge").Text(`{"cents":7}`).Text(options).I32(0).I32(0).Call(abi.FnStepDo).Drop()
	if _, err := h.Upload(t.Context(), "w", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("charge")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), "w", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	began := h.Clock.Now()
	h.Finish("r")
	var last host.Entry
	for e, err := range h.Journal(t.Context(), "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if k := e.Kind.String(); k == "step_result" || k == "step_failure" {
			last = e
		}
	}
	return last, h.Clock.Now().Sub(began)
}

// TestAnswers uses services with different answers, and checks the number of calls and the recorded outcome.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		answer  http.HandlerFunc
		calls   int
		kind    string
		text    string
		took    time.Duration
	}{
		"result":  {"", write(200, `{"id":1}`), 1, "step_result", `{"id":1}`, 0},
		"nothing": {"", write(204, ""), 1, "step_result", "", 0},
		"no JSON": {"", write(200, "ok"), 1, "step_failure", `its result is JSON, got \"ok\"`, 0},
		"large":   {"", write(200, strings.Repeat("1", 1<<20+1)), 1, "step_failure", "more than 1048576 bytes", 0},
		"problem": {"", write(422, `{"title":"t","detail":"no such card"}`), 1, "step_failure", `answered 422: no such card`, 0},
		"fatal":   {"", write(500, `{"fatal":true,"message":"gone"}`), 1, "step_failure", "answered 500: gone", 0},
		"again":   {`{"attempts":3,"delay":"1s","backoff":"fixed"}`, write(500, "down"), 3, "step_failure", "answered 500: down", -1},
		"line":    {"", write(400, "gone\r\n"), 1, "step_failure", `answered 400: gone"`, 0},
		"not yet": {"", write(404, `{"fatal":false}`), 3, "step_failure", "answered 404", -1},
		"later":   {"", header("Retry-After", "3600", 429), 3, "step_failure", "answered 429", 2 * time.Hour},
		"moved":   {"", header("Location", "http://127.0.0.1:1/", 307), 1, "step_failure", "answered 307", 0},
		"cut":     {"", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3, "step_failure", "EOF", -1},
		"cut, once": {`{"at_most_once":true}`, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, "step_failure",
			"nobody knows", 0},
		"proxy, once":   {`{"at_most_once":true}`, write(502, ""), 1, "step_failure", "nobody knows", 0},
		"refused, once": {`{"at_most_once":true,"attempts":2}`, write(503, ""), 2, "step_failure", "answered 503", -1},
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int64 // for the race detector, a cut connection does not order memory accesses
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				count.Add(1)
				c.answer(w, r)
			}))
			defer s.Close()
			e, took := call(t, s.URL, c.options)
			calls := int(count.Load())
			if e.Kind.String() != c.kind || !strings.Contains(string(e.Data), c.text) || calls != c.calls || c.took >= 0 && took != c.took {
				t.Errorf("%s %.400s after %d calls and %v, want %s %s after %d calls and %v", e.Kind, e.Data, calls, took, c.kind, c.text,
					c.calls, c.took)
			}
		})
	}
}

func write(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func header(name, value string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(name, value)
		w.WriteHeader(status)
	}
}

// TestRefusedConnection retries a request that was certainly not sent, even if it must be made at most once.
func TestRefusedConnection(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	e, _ := call(t, s.URL+"/in?key=hidden", `{"at_most_once":true,"attempts":2}`)
	if strings.Contains(string(e.Data), "hidden") { // the workflow sees this, and so does a reader of its journal
		t.Errorf("the URL is shown: %s", e.Data)
	}
	if !strings.Contains(string(e.Data), "connection refused") || !strings.Contains(string(e.Data), `"attempts":2`) {
		t.Errorf("%s", e.Data)
	}
}

// TestSignature verifies a request as a service would.
func TestSignature(t *testing.T) {
	var ids []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		m := hmac.New(sha256.New, key)
		m.Write([]byte(id + "." + at + "." + string(body)))
		signatures := strings.Fields(r.Header.Get("webhook-signature"))
		if want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)); len(signatures) != 2 || signatures[1] != want {
			t.Errorf("%q, want %q as the second", signatures, want)
		}
		if s, e := strconv.ParseInt(at, 10, 64); e != nil || s < 1_700_000_000 {
			t.Error(at, e)
		}
		var a webhook.Attempt
		err = errors.Join(err, json.Unmarshal(body, &a))
		if err != nil || a.Type != "wfhost.attempt" || a.Handler != "charge" ||
			a.Run != "r" || a.Step != "pay" || a.Attempt != len(ids)+1 || string(a.Input) != `{"cents":7}` || a.IdempotencyKey != id ||
			r.Header.Get("Idempotency-Key") != id || r.Header.Get("Traceparent") != a.TraceParent || len(a.TraceParent) != 55 {
			t.Errorf("%v %+v %v", err, a, r.Header)
		}
		ids = append(ids, id)
		if len(ids) < 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	if e, _ := call(t, s.URL, ""); e.Kind.String() != "step_result" || len(ids) != 2 || ids[0] != ids[1] {
		t.Error(e.Kind, ids)
	}
}

// TestTLS refuses a certificate that nobody knows.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	if e, _ := call(t, s.URL, `{"attempts":1}`); !strings.Contains(string(e.Data), "certificate") {
		t.Errorf("%s", e.Data)
	}
}

// TestTimeout cancels a request at the step's timeout.
func TestTimeout(t *testing.T) {
	began, ended := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
		began <- true
		<-r.Context().Done()
		ended <- true
	}))
	defer s.Close()
	h := hosttest.New(t)
	if err := webhook.Register(h.Host, "charge", webhook.Config{URL: s.URL, Secrets: func() ([]string, error) { return secret, nil }}); err != nil {
		t.Fatal(err)
	}
	m := wasmgen.New(0).Text("pay").Text("host/charge").Text("").Text(`{"timeout":"5s","attempts":1}`).I32(0).I32(0).Call(abi.FnStepDo).Drop()
	if _, err := h.Upload(t.Context(), "w", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("charge")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), "w", nil, host.WithRunID("r")); err != nil {
		t.Fatal(err)
	}
	<-began
	h.Clock.Advance(5 * time.Second)
	<-ended
	h.Finish("r")
}

// TestConfig refuses what cannot be.
func TestConfig(t *testing.T) {
	h := hosttest.New(t)
	good := func() ([]string, error) { return secret, nil }
	for want, c := range map[string]struct {
		name string
		webhook.Config
	}{
		"handler name":            {strings.Repeat("x", 300), webhook.Config{URL: "https://a.example", Secrets: good}},
		"it is empty":             {"", webhook.Config{URL: "https://a.example", Secrets: good}},
		`got "ftp://a.example"`:   {"x", webhook.Config{URL: "ftp://a.example", Secrets: good}},
		`got "https://u:xxxxx@a"`: {"x", webhook.Config{URL: "https://u:hidden@a", Secrets: good}},
		"no URL such as":          {"x", webhook.Config{URL: "https://u:hidden@a:b", Secrets: good}},
		"from 1 to 65535":         {"x", webhook.Config{URL: "https://a.example:65536", Secrets: good}},
		`got "charge"`:            {"x", webhook.Config{URL: "charge", Secrets: good}},
		"no secret to sign":       {"x", webhook.Config{URL: "https://a.example"}},
		"from 1 to 4 secrets":     {"x", webhook.Config{URL: "https://a.example", Secrets: func() ([]string, error) { return nil, nil }}},
		"at least 24 bytes":       {"x", webhook.Config{URL: "https://a.example", Secrets: func() ([]string, error) { return []string{"x"}, nil }}},
		"goes on with base64":     {"x", webhook.Config{URL: "https://a.example", Secrets: func() ([]string, error) { return []string{"whsec_?"}, nil }}},
		context.Canceled.Error():  {"x", webhook.Config{URL: "https://a.example", Secrets: func() ([]string, error) { return nil, context.Canceled }}},
	} {
		if err := webhook.Register(h.Host, c.name, c.Config); !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
