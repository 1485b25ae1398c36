package httpstep_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/steps/httpstep"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// caller is a workflow that passes its input to host/http and returns the answer.
func caller() []byte {
	m := wasmgen.New(1)
	m.Text("call").Text("host/http")
	m.I32(1024).I32(1024).I32(2048).Call(abi.FnInput).Op(0xa7) // input: address, length
	m.Text(`{"attempts":3,"delay":"1s"}`).I32(8192).I32(4096).Call(abi.FnStepDo).Set(0)
	m.Get(0).I64(0).Op(0x53, 0x04, 0x40) // if the answer is less than 0
	m.I32(8192).I32(8192).I32(4096).Call(abi.FnLast).Op(0xa7).Call(abi.FnFail).Drop().I32(1).Op(0x0f).End()
	m.I32(8192).Get(0).Op(0xa7).Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

func TestHTTPStep(t *testing.T) {
	ctx := context.Background()
	busy := 2
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			busy--
			if busy >= 0 {
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = io.WriteString(w, "done")
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		default:
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Key", r.Header.Get("Idempotency-Key"))
			_, _ = io.WriteString(w, `{"got":`+string(b)+`,"type":"`+r.Header.Get("Content-Type")+`"}`)
		}
	}))
	defer s.Close()
	h := hosttest.New(t, hosttest.WithHandlers(httpstep.Register))
	if _, err := h.Upload(ctx, "call", caller(), host.AllowStep("http"), host.AllowHTTP(s.URL)); err != nil {
		t.Fatal(err)
	}
	run := func(input string) (string, error) {
		t.Helper()
		r, err := h.StartRaw(ctx, "call", []byte(input))
		if err != nil {
			t.Fatal(err)
		}
		h.Finish(r.ID)
		b, err := h.ResultRaw(ctx, r.ID)
		return string(b), err
	}
	got, err := run(`{"method":"POST","url":"` + s.URL + `/","body":{"a":1}}`)
	if err != nil || !strings.Contains(got, `"body":{"got":{"a":1},"type":"application/json"}`) || !strings.Contains(got, `"X-Key":["`) {
		t.Fatal(got, err)
	}
	from := h.Clock.Now()
	got, err = run(`{"url":"` + s.URL + `/busy"}`)
	if err != nil || !strings.Contains(got, `"body":"done"`) || h.Clock.Now().Sub(from) != time.Minute {
		t.Fatal(got, err, h.Clock.Now().Sub(from))
	}
	got, err = run(`{"url":"` + s.URL + `/missing","accept":[404]}`)
	if err != nil || !strings.Contains(got, `"status":404`) {
		t.Fatal(got, err)
	}
	for input, part := range map[string]string{
		`{"url":"` + s.URL + `/missing"}`:        "answered 404",
		`{"url":"https://example.com/"}`:         "not allowed",
		`{"url":"http://127.0.0.1:1/"}`:          "not allowed",
		`{"url":7}`:                              "input of handler",
		`{"url":"` + s.URL + `","method":"a b"}`: "method",
	} {
		got, err := run(input)
		re, ok := errors.AsType[*host.RunError](err)
		if !ok || re.Failure == nil || re.Failure.Attempts != 1 || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %s %v", input, got, err)
		}
	}
}
