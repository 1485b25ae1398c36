package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// A malformed chunked body is the client's fault, at every kind of endpoint.
func TestBadChunks(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", hooked())
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	s := httptest.NewServer(a.API)
	defer s.Close()
	for _, path := range []string{"/v1/workflows/w/runs", "/v1/runs:bulk", "/v1/backup", "/v1/hooks/" + chosen, "/v1/runs/r/signals/go"} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n{}\r\n", path, local)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		var p Problem
		err = json.NewDecoder(res.Body).Decode(&p)
		if err != nil || res.StatusCode != http.StatusBadRequest || p.Code != "invalid" || strings.Contains(p.Detail, "127.0.0.1") {
			t.Errorf("%s: %d %+v %v", path, res.StatusCode, p, err)
		}
		_ = res.Body.Close() // it was read
		_ = c.Close()
	}
}

// The answer to a body that is late or too large is the same at every endpoint, and reveals no addresses behind a
// proxy.
func TestBadBody(t *testing.T) {
	late := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3)}, Err: os.ErrDeadlineExceeded}
	for _, x := range []struct {
		err    error
		status int
		code   string
	}{{late, http.StatusRequestTimeout, "timeout"}, {&http.MaxBytesError{Limit: 7}, http.StatusRequestEntityTooLarge, "limit"},
		{io.ErrUnexpectedEOF, http.StatusBadRequest, "invalid"}} {
		w := httptest.NewRecorder()
		writeProblem(w, badBody(x.err, 7))
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != x.status || p.Code != x.code || strings.Contains(p.Detail, "10.") {
			t.Errorf("%v: %d %+v", x.err, w.Code, p)
		}
	}
	a := newAPI(t, Access{})
	a.is(a.call(local, http.MethodPost, "/v1/backup", strings.Repeat(" ", maxBackupRequest+1)+"{}"), http.StatusRequestEntityTooLarge, "limit")
	a.is(a.call(local, http.MethodPost, "/v1/backup", "{"), http.StatusBadRequest, "invalid")
}

// A start has its input as JSON or as bytes in base64.
func TestStartBytes(t *testing.T) {
	a := newAPI(t, Access{})
	const path = "/v1/workflows/w/runs"
	a.is(a.call(local, http.MethodPost, path, `{"input_base64":"b25l"}`), http.StatusNotFound, "not_found") // there is no workflow
	a.is(a.call(local, http.MethodPost, path, `{"input_base64":"one!"}`), http.StatusBadRequest, "invalid")
	a.is(a.call(local, http.MethodPost, path, `{"input_base64":"b25l","input":1}`), http.StatusBadRequest, "invalid")
}

// Unclean paths are not redirected, and unknown schemas are not found.
func TestUncleanPaths(t *testing.T) {
	a := newAPI(t, Access{})
	for _, path := range []string{"//v1/runs", "/v1//runs", "/v1/./runs", "/v1/runs/../runs", "//evil.example/v1", "/v1/runs/",
		"/schemas/..%2f..%2fx", "/schemas/Nothing.json", "/schemas/"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:7777"+path, nil)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if a.is(w, http.StatusNotFound, "not_found"); w.Header().Get("Location") != "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	if w := a.call("", http.MethodGet, "/schemas/Problem.json", ""); w.Code != http.StatusNotFound && !strings.HasPrefix(w.Body.String(), "{") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := a.call("", http.MethodGet, "/schemas/BulkRequest.json", ""); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "{") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A limit of zero is refused, and so is an action on all runs without an explicit "all".
func TestRequestsThatSayTooLittle(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "w", wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	for _, what := range []string{"journal", "logs"} {
		for limit, status := range map[string]int{"0": http.StatusBadRequest, "-1": http.StatusBadRequest, "1": http.StatusOK, "99999": http.StatusOK} {
			code := ""
			if status != http.StatusOK {
				code = "invalid"
			}
			a.is(a.call(local, http.MethodGet, "/v1/runs/r/"+what+"?limit="+limit, ""), status, code)
		}
	}
	a.is(a.call(local, http.MethodPost, "/v1/runs:bulk", `{"action":"terminate"}`), http.StatusBadRequest, "invalid")
	if r, err := a.h.Get(context.Background(), "r"); err != nil || r.Status.Terminal() {
		t.Fatal(r, err)
	}
	a.is(a.call(local, http.MethodPost, "/v1/runs:bulk", `{"action":"terminate","dry_run":true}`), http.StatusOK, "")
	a.is(a.call(local, http.MethodPost, "/v1/runs:bulk", `{"action":"terminate","all":true}`), http.StatusOK, "")
	if r, err := a.h.Get(context.Background(), "r"); err != nil || !r.Status.Terminal() {
		t.Error(r, err)
	}
}

// If only Sec-Fetch-Site shows that a page is foreign, the answer does not name an empty origin.
func TestPageWithoutOrigin(t *testing.T) {
	a := newAPI(t, Access{})
	w := a.call(local, http.MethodGet, "/v1/runs", "", "Sec-Fetch-Site", "cross-site")
	if a.is(w, http.StatusForbidden, "origin"); !strings.Contains(w.Body.String(), "a web page of another site") {
		t.Error(w.Body)
	}
}
