package traces

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

var ctx = context.Background()

const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// world is a host with traces. Each restart makes new traces, as another process would.
type world struct {
	*hosttest.Host
	t       *testing.T
	spans   *tracetest.InMemoryExporter
	traces  *Traces
	parents []string // that the handler was told
}

func newWorld(t *testing.T, o Options) *world {
	w := &world{t: t, spans: tracetest.NewInMemoryExporter()}
	o.Exporter = w.spans
	fails := 1
	w.Host = hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		var err error
		w.traces, err = New(o)
		if err != nil {
			t.Fatal(err)
		}
		traces := w.traces
		t.Cleanup(func() { _ = traces.Close(ctx) })
		c.Events = host.JoinEvents(c.Events, host.Events{
			RunStarted:   func(r host.Run) { w.traces.Events().RunStarted(r) },
			RunEnded:     func(r host.Run, d time.Duration) { w.traces.Events().RunEnded(r, d) },
			RunStuck:     func(r host.Run) { w.traces.Events().RunStuck(r) },
			Activation:   func(a host.ActivationInfo) { w.traces.Events().Activation(a) },
			AttemptEnded: func(a host.AttemptInfo) { w.traces.Events().AttemptEnded(a) },
		})
	}), hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "pay", func(ctx context.Context, _ *int) (int, error) {
			s := host.StepInfo(ctx)
			w.parents = append(w.parents, s.TraceParent())
			fails--
			if fails >= 0 {
				return 0, errors.New("declined")
			}
			return 1, nil
		})
	}))
	for name, module := range map[string]*wasmgen.Module{
		"nap": wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0),
		"bad": wasmgen.New(0).I32(7),
		"order": wasmgen.New(0).Text("kid").Text("nap").I32(0).I32(0).Text(`{"id":"kid"}`).Call(abi.FnChildStart).Drop().
			Text("pay").Text("host/pay").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
			Text("nap").I64(3_600_000).Call(abi.FnSleep).Drop().Text("again").I64(1000).Call(abi.FnSleep).Drop().I32(0),
	} {
		if _, err := w.Upload(ctx, name, module.Export(abi.ExportRun).Bytes(), host.AllowStep("*")); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// restart opens another host over the durable data, with new traces.
func (w *world) restart() {
	w.Stop()
	w.flush()
	next, err := New(Options{Exporter: w.spans})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = next.Close(ctx) })
	w.traces = next
	w.Reopen()
}

func (w *world) flush() tracetest.SpanStubs {
	if err := w.traces.provider.ForceFlush(ctx); err != nil {
		w.t.Fatal(err)
	}
	return w.spans.GetSpans()
}

func value(s *tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.Emit()
		}
	}
	return ""
}

func named(all tracetest.SpanStubs, run, name string) (list tracetest.SpanStubs) {
	for i := range all {
		if s := &all[i]; value(s, keyRun) == run && strings.HasPrefix(s.Name, name) {
			list = append(list, *s)
		}
	}
	return list
}

// A run that sleeps across a restart is in one trace, its caller's. Its child belongs to the same trace, and its
// handler gets the span of each attempt. No span is open while the run sleeps.
func TestTrace(t *testing.T) {
	w := newWorld(t, Options{})
	r, err := w.Start(ctx, "order", nil, host.WithRunID("o"), host.WithTraceParent(caller))
	if err != nil {
		t.Fatal(err)
	}
	w.Advance(10 * time.Minute) // the child has ended, and the second attempt succeeded
	w.restart()
	w.Advance(2 * time.Hour)
	all := w.flush()
	at := r.Trace()
	if at.TraceID() != caller[3:35] {
		t.Errorf("the trace is %s", at.TraceID())
	}
	seen := map[string]bool{}
	for i := range all {
		s := &all[i]
		if id := s.SpanContext.SpanID().String(); seen[id] {
			t.Errorf("two spans have the id %s", id)
		} else {
			seen[id] = true
		}
		if s.SpanContext.TraceID() != at.ID || s.EndTime.Sub(s.StartTime) > time.Minute || s.EndTime.Before(s.StartTime) {
			t.Errorf("%s of trace %s lasts from %v to %v", s.Name, s.SpanContext.TraceID(), s.StartTime, s.EndTime)
		}
	}
	start, kid := named(all, "o", "start order"), named(all, "kid", "start nap")
	if len(start) != 1 || start[0].Parent.SpanID().String() != caller[36:52] || start[0].SpanContext.SpanID() != at.Span {
		t.Fatalf("the starts are %+v", start)
	}
	if len(kid) != 1 || kid[0].Parent.SpanID() != at.Span || value(&kid[0], keyParent) != "o" {
		t.Errorf("the child's starts are %+v", kid)
	}
	steps := named(all, "o", "step pay")
	if len(steps) != 2 || len(w.parents) != 2 || steps[0].Status.Code != codes.Error || !strings.HasSuffix(steps[0].Status.Description, "declined") ||
		steps[1].Status.Code == codes.Error || value(&steps[1], keyAttempt) != "2" || value(&steps[1], keyHandler) != "pay" {
		t.Fatalf("the steps are %+v, of which the handler was told %v", steps, w.parents)
	}
	for i, s := range steps {
		if s.Parent.SpanID() != at.Span || !strings.Contains(w.parents[i], s.SpanContext.SpanID().String()) {
			t.Errorf("attempt %d is below %v, and its handler was told %s", i+1, s.Parent.SpanID(), w.parents[i])
		}
	}
	activations := named(all, "o", "order")
	if len(activations) < 2 {
		t.Fatalf("the activations are %+v", activations)
	}
	links := 0
	for _, s := range activations {
		links += len(s.Links)
		if s.Parent.SpanID() != at.Span {
			t.Errorf("an activation is below %v", s.Parent.SpanID())
		}
	}
	if links == 0 {
		t.Error("no activation has a link to the one before")
	}
	if end := named(all, "o", "end order"); len(end) != 1 || value(&end[0], keyStatus) != "completed" ||
		end[0].StartTime.Sub(start[0].StartTime) < time.Hour {
		t.Errorf("the ends are %+v", end)
	}
}

// A run without a traced caller has its own trace, computed from its record. A failed run has its error. A run whose
// caller does not sample the trace is not exported.
func TestWithoutCaller(t *testing.T) {
	w := newWorld(t, Options{})
	r, err := w.Start(ctx, "bad", nil, host.WithRunID("b"), host.WithTraceParent("rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(ctx, "bad", nil, host.WithRunID("quiet"), host.WithTraceParent(caller[:53]+"00")); err != nil {
		t.Fatal(err)
	}
	w.Settle()
	all := w.flush()
	if got, err := w.Get(ctx, "b"); err != nil || got.TraceID != r.Trace().TraceID() || got.TraceID == caller[3:35] {
		t.Errorf("its record has trace %q: %v", got.TraceID, err)
	}
	end := named(all, "b", "end bad")
	if len(end) != 1 || end[0].Status.Code != codes.Error || end[0].Status.Description == "" || len(named(all, "quiet", "")) > 0 {
		t.Errorf("the spans are %+v", all)
	}
	if start := named(all, "b", "start"); len(start) != 1 || start[0].Parent.IsValid() {
		t.Errorf("the starts are %+v", start)
	}
}

// With a ratio, each trace is exported completely or not at all.
func TestRatio(t *testing.T) {
	for _, bad := range []Options{{}, {Exporter: tracetest.NewNoopExporter(), Ratio: -1}, {Exporter: tracetest.NewNoopExporter(), Ratio: 1.1}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	x, err := New(Options{Exporter: tracetest.NewNoopExporter(), Ratio: .25})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range 256 {
		if x.records(host.Trace{ID: [16]byte{9: byte(i)}, Sampled: true}) {
			n++
		}
	}
	if n != 64 {
		t.Errorf("%d of 256 traces are recorded", n)
	}
	if x.records(host.Trace{ID: [16]byte{9: 255}}) {
		t.Error("a trace is recorded that nobody records")
	}
}

// What is remembered of runs is bounded.
func TestRecent(t *testing.T) {
	x, err := New(Options{Exporter: tracetest.NewNoopExporter()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range recentRuns + 10 {
		x.activation(host.ActivationInfo{Ended: time.Unix(int64(i), 0)})
		x.recent.set([8]byte{byte(i), byte(i >> 8), 1}, x.recent.get([8]byte{}))
	}
	if n := len(x.recent.runs); n != recentRuns {
		t.Errorf("%d runs are remembered", n)
	}
}
