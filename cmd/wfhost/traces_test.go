package main

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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

var writeTrace = flag.Bool("trace.write", false, "write the trace of TestServeTraces into docs/operate/traces.md")

// spanCollector receives the spans of servers.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	began int // servers
	spans []collected
	of    map[string]bool // services
	paths map[string]bool
}

// collected is a span and the number of the server that sent it, from 1.
type collected struct {
	*otlp.Span
	server int
}

// serverBegins attributes all later spans to the next server.
func (c *spanCollector) serverBegins() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began++
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
		err = cmp.Or(err, proto.Unmarshal(b, &req))
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paths[r.URL.Path] = true
		for _, res := range req.GetResourceSpans() {
			c.of[values(res.GetResource().GetAttributes())["service.name"]] = true
			for _, s := range res.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					c.spans = append(c.spans, collected{span, c.began})
				}
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

// text formats a trace: one line per span, ordered by time, with the main attributes of activations and attempts.
func (c *spanCollector) text(trace string) (text string, spans []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []collected
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			of = append(of, s)
		}
	}
	slices.SortStableFunc(of, func(a, b collected) int {
		return cmp.Or(cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano()), cmp.Compare(a.GetName(), b.GetName()))
	})
	server := 0
	for _, s := range of {
		spans = append(spans, s.Span)
		if s.server != server {
			server = s.server
			text += fmt.Sprintf("from server %d\n", server)
		}
		v := values(s.GetAttributes())
		more := v["wfhost.activation.end"]
		if n := v["wfhost.activation.replayed"]; n != "" && n != "0" {
			more += ", " + n + " entries replayed"
		}
		if n := v["wfhost.step.attempt"]; n != "" {
			more = "attempt " + n + " by " + v["wfhost.step.handler"]
		}
		if m := s.GetStatus().GetMessage(); m != "" {
			more += ": " + m
		}
		for _, l := range s.GetLinks() {
			more += fmt.Sprintf(", after %x", l.GetSpanId())
		}
		text += strings.TrimRight(fmt.Sprintf("%9.3f s %8.3f ms  %x below %x  %-12s %s", float64(s.GetStartTimeUnixNano()-of[0].GetStartTimeUnixNano())/1e9,
			float64(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano())/1e6, s.GetSpanId(), s.GetParentSpanId(), s.GetName(),
			strings.TrimPrefix(more, ", ")), " ") + "\n"
	}
	return text, spans
}

// attributes formats all attributes of the last activation of a trace, as a collector gets them.
func (c *spanCollector) attributes(spans []*otlp.Span) (text string) {
	var last *otlp.Span
	for _, s := range spans {
		if s.GetName() == "order" {
			last = s
		}
	}
	text = fmt.Sprintf("%x, %v\n", last.GetSpanId(), last.GetKind())
	for _, a := range last.GetAttributes() {
		text += fmt.Sprintf("    %-28s %s\n", a.GetKey(), values([]*common.KeyValue{a})[a.GetKey()])
	}
	return text
}

// documented is the page that shows a trace.
const documented = "../../docs/operate/traces.md"

// shown compares a trace with the one in the manual, ignoring times. With -trace.write it replaces the one in the manual.
func shown(t *testing.T, text string) {
	t.Helper()
	doc, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	const open, end = "```text collector\n", "```"
	before, rest, ok := strings.Cut(string(doc), open)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s shows no trace", documented)
	}
	if *writeTrace {
		if err := os.WriteFile(documented, []byte(before+open+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	// Compare each line once: a slow machine may need another activation.
	what := func(text string) (lines []string) {
		for _, line := range strings.Split(numbers.ReplaceAllString(micros.ReplaceAllString(text, "_us 0"), "N"), "\n") {
			line, _, _ = strings.Cut(line, ", after") // the first activation after a restart has no link
			line = strings.Join(strings.Fields(line), " ")
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return lines
	}
	if a, b := what(got), what(text); !slices.Equal(a, b) {
		t.Errorf("%s shows\n%q\nthe collector has\n%q\nwrite it with: make trace", documented, a, b)
	}
}

// numbers match what differs between two traces: ids, times and counts, but not HTTP statuses. Microseconds may have
// as many digits as a status.
var (
	numbers = regexp.MustCompile(`\b([0-9a-f]{16,}|[0-9]+\.[0-9]+|[0-9]{4,}|[0-9]{1,2})\b`)
	micros  = regexp.MustCompile(`_us [0-9]+`)
)

// TestServeTraces restarts the server while a run sleeps. The collector has one trace of the run, below the caller's
// span, and each attempt passes the handler a span of that trace. The manual shows this trace.
func TestServeTraces(t *testing.T) {
	c := newCollector(t)
	var mu sync.Mutex
	var told []string
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Header.Get("Traceparent"))
		if len(told) == 1 {
			http.Error(w, "no line to the bank", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"paid":true}`)
	}))
	defer handler.Close()
	wasm := filepath.Join(t.TempDir(), "order.wasm")
	module := wasmgen.New(0).Text("pay").Text("host/pay").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
		I32(0).I32(0).Call(abi.FnAwait).Drop().Text("packing").I64(2000).Call(abi.FnSleep).Drop().
		Text("ship").Text("host/ship").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
		I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0).Export(abi.ExportRun).Bytes()
	if err := os.WriteFile(wasm, module, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRACES_TEST_SECRET", strings.Repeat("s", 32))
	address, data := freeAddress(t), t.TempDir()
	flags := []string{"--otlp-endpoint", c.URL, "--handler", "pay=" + handler.URL, "--handler", "ship=" + handler.URL, "--handler-secret", "env:TRACES_TEST_SECRET"}
	c.serverBegins()
	p := serveProcess(t, data, address, flags...)
	commanded(t, address, "upload", wasm, "--workflow", "order", "--allow-step", "pay", "--allow-step", "ship")
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
	c.serverBegins()
	p = serveProcess(t, data, address, flags...)
	commanded(t, address, "result", "o-1", "--wait")
	if shown := commanded(t, address, "show", "o-1"); !strings.Contains(shown, "\ntrace     "+caller[3:35]) {
		t.Error(shown)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil || p.end() != 0 {
		t.Fatal("it does not end", err)
	}
	text, spans := c.text(caller[3:35])
	shown(t, text+"\n"+c.attributes(spans))
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
	if names["start order"] != 1 || names["end order"] != 1 || names["step pay"] != 2 || names["step ship"] != 1 || names["order"] < 2 {
		t.Errorf("the spans are %v", names)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 3 || !slices.ContainsFunc(spans, func(s *otlp.Span) bool {
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
