package httpapi

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// chosen is a hook token that a workflow of the tests chooses.
const chosen = "chosen-token"

// hooked is a workflow with a hook under that token.
func hooked() *wasmgen.Module {
	return wasmgen.New(0).Text("hook").Text(chosen).I32(0).I32(0).Call(abi.FnHookStart).Drop().
		Text("day").I64(86_400_000).Call(abi.FnSleep).Drop().I32(0)
}

// TestStrangersSpendNoQuota makes requests that need no token, and deliveries to unknown tokens, in a namespace with
// a quota of one request per second. The tenant's own requests succeed, and answers do not reveal whether a namespace
// exists.
func TestStrangersSpendNoQuota(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("a", "w", hooked())
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs?namespace=a", `{"id":"r"}`), http.StatusCreated, "")
	if err := a.h.SetQuota(t.Context(), "a", host.Quota{RequestsPerSecond: 1}); err != nil {
		t.Fatal(err)
	}
	token := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}, Namespace: "a"})
	deliver := func(token, namespace string) *httptest.ResponseRecorder {
		return a.call("", http.MethodPost, "/v1/hooks/"+token+"?namespace="+namespace, "{}")
	}
	stranger := func(answers map[string]int) {
		for i := range 2 * missesAtOnce {
			w := deliver("wrong-token", []string{"a", "nobodys"}[i%2])
			answers[fmt.Sprint(w.Code, w.Header(), w.Body)]++
		}
		for range 3 {
			a.is(a.call("", http.MethodGet, "/healthz?namespace=a", ""), http.StatusOK, "")
			a.is(a.call("", http.MethodGet, "/openapi.json?namespace=a", ""), http.StatusOK, "")
		}
	}
	answers := map[string]int{}
	stranger(answers)
	for said := range answers {
		if strings.Contains(said, "namespace") || strings.Contains(said, "second") {
			t.Errorf("a stranger is told %s", said)
		}
	}
	if len(answers) != 2 { // unknown token, and too many deliveries to unknown tokens
		t.Errorf("strangers get %d answers: %v", len(answers), answers)
	}
	a.is(a.call(token, http.MethodGet, "/v1/runs?namespace=a", ""), http.StatusOK, "")
	refused := 0
	for range 20 { // who holds a token counts
		w := deliver(chosen, "a")
		if w.Code == http.StatusAccepted {
			continue
		}
		refused++
		if a.is(w, http.StatusTooManyRequests, "busy"); !strings.Contains(w.Body.String(), "its quota") || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
	}
	if refused == 0 {
		t.Error("twenty deliveries were taken, the quota is one a second")
	}
}

// TestBodyOfNobodysHook looks up the hook before it reads the body.
func TestBodyOfNobodysHook(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", hooked())
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	s := httptest.NewServer(a.API)
	defer s.Close()
	for token, status := range map[string]int{chosen: http.StatusContinue, "wrong-token": http.StatusNotFound} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST /v1/hooks/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token,
			abi.MaxPayloadBytes)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != status {
			t.Errorf("%s: %v %v, want %d", token, res, err, status)
		}
		_ = c.Close()
	}
}
