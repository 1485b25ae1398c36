package main

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// spanCollector takes what a server tells of its runs.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	of    map[string]bool // services
	paths map[string]bool
}

func newCollector(t *testing.T) *spanCollector {
	c := &spanCollector{of: map[string]bool{}, paths: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		b, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err = cmp.Or(err, proto.Unmarshal(b, &req)); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paths[r.URL.Path] = true
		for _, res := range req.GetResourceSpans() {
			c.of[values(res.GetResource().GetAttributes())["service.name"]] = true
			for _, s := range res.GetScopeSpans() {
				c.spans = append(c.spans, s.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func values(attributes []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			m[a.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return m
}

// text shows a trace as a tree of one level below the first span.
func (c *spanCollector) text(trace string) (text string, spans []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			spans = append(spans, s)
		}
	}
	slices.SortStableFunc(spans, func(a, b *otlp.Span) int {
		return cmp.Or(cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()), cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, s := range spans {
		v := values(s.GetAttributes())
		text += fmt.Sprintf("%9.3f s %8.3f ms  %x below %x  %-14s %s\n",
			float64(s.GetStartTimeUnixNano()-spans[0].GetStartTimeUnixNano())/1e9,
			float64(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano())/1e6, s.GetSpanId(), s.GetParentSpanId(), s.GetName(),
			strings.TrimSpace(v["wfhost.activation.end"]+" "+s.GetStatus().GetMessage()))
	}
	return text, spans
}

// TestServeTraces has a run sleep over a restart of the server: the collector has one trace of it, below the span of the caller, and
// the handler was told a span of that for each attempt.
func TestServeTraces(t *testing.T) {
	c := newCollector(t)
	var mu sync.Mutex
	var told []string
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if told = append(told, r.Header.Get("Traceparent")); len(told) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"paid":true}`)
	}))
	defer handler.Close()
	wasm := filepath.Join(t.TempDir(), "order.wasm")
	module := wasmgen.New(0).Text("pay").Text("host/pay").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
		I32(0).I32(0).Call(abi.FnAwait).Drop().Text("cool").I64(2000).Call(abi.FnSleep).Drop().I32(0).Export(abi.ExportRun).Bytes()
	if err := os.WriteFile(wasm, module, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRACES_TEST_SECRET", strings.Repeat("s", 32))
	address, data := freeAddress(t), t.TempDir()
	flags := []string{"--otlp-endpoint", c.URL, "--handler", "pay=" + handler.URL, "--handler-secret", "env:TRACES_TEST_SECRET"}
	p := serveProcess(t, data, address, flags...)
	commanded(t, address, "upload", wasm, "--workflow", "order", "--allow-step", "pay")
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	commanded(t, address, "start", "order", "--id", "o-1", "--traceparent", caller)
	for range 200 {
		if strings.Contains(commanded(t, address, "show", "o-1"), "sleeping") {
			break
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil || p.end() != 0 {
		t.Fatal("it does not end", err)
	}
	p = serveProcess(t, data, address, flags...)
	commanded(t, address, "result", "o-1", "--wait")
	if shown := commanded(t, address, "show", "o-1"); !strings.Contains(shown, "\ntrace     "+caller[3:35]) {
		t.Error(shown)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil || p.end() != 0 {
		t.Fatal("it does not end", err)
	}
	text, spans := c.text(caller[3:35])
	t.Logf("\n%s", text)
	names := map[string]int{}
	for _, s := range spans {
		names[s.GetName()]++
		want := spanOf(spans, "start order")
		if s.GetName() == "start order" {
			want = caller[36:52]
		}
		if got := hex.EncodeToString(s.GetParentSpanId()); got != want {
			t.Errorf("%s is below %s, not %s", s.GetName(), got, want)
		}
	}
	if names["start order"] != 1 || names["end order"] != 1 || names["step pay"] != 2 || names["order"] < 2 {
		t.Errorf("the spans are %v", names)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || !slices.ContainsFunc(spans, func(s *otlp.Span) bool {
		return s.GetName() == "step pay" && strings.Contains(told[1], hex.EncodeToString(s.GetSpanId()))
	}) {
		t.Errorf("the handler was told %v", told)
	}
	if !c.of["wfhost"] || !c.paths["/v1/traces"] || len(c.of) != 1 {
		t.Errorf("services are %v, paths %v", c.of, c.paths)
	}
}

// spanOf returns the id of a span.
func spanOf(spans []*otlp.Span, name string) string {
	for _, s := range spans {
		if s.GetName() == name {
			return hex.EncodeToString(s.GetSpanId())
		}
	}
	return ""
}
