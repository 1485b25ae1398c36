// Package traces exports what a host does to OpenTelemetry. It listens to the host's events:
//
//	exporter, err := otlptracehttp.New(ctx) // of go.opentelemetry.io/otel/exporters/otlp/otlptrace, or any other
//	t, err := traces.New(traces.Options{Exporter: exporter})
//	h, err := host.Open(ctx, host.Config{Events: t.Events()})
//	...
//	err = t.Close(ctx) // after h.Close
//
// Each run is a trace, or belongs to its caller's trace (host.WithTraceParent). No span is open while a run sleeps:
// the run itself is a span without a duration, its start, and the parent of all others. Each activation is a span with
// a link to the previous one. Each attempt of a step is a span, whose id the handler gets in the header traceparent,
// and so is the run's end. The start of a child is below its parent's start. docs/operate/traces.md lists spans and
// attributes.
//
// All ids except those of activations are derived from durable data, so that a trace continues after a restart of the
// host.
package traces

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/wfhost/wfhost/host"
)

// QueueSpans is how many spans may wait for the exporter, some tens of megabytes. Further spans are dropped: no run
// waits for a collector.
const QueueSpans = 16_384

// scope is the name of the instrumentation.
const scope = "github.com/wfhost/wfhost/host"

// Options are the options of New.
type Options struct {
	// Exporter takes the spans. It is required.
	Exporter sdktrace.SpanExporter
	// Resource describes the program. Default: the environment (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES), with the
	// service "wfhost" if it names none.
	Resource *resource.Resource
	// Ratio is the share of all traces that is recorded, chosen by the trace's id, above 0 and at most 1. Default: 1.
	// Traces that their callers do not sample are never recorded.
	Ratio float64
}

// Traces exports the traces of one host. It is safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	least    uint64 // the minimum end of the ids of recorded traces
	recent   recent
}

// New returns traces for a host that is not open yet. It returns an error for an invalid option.
func New(o Options) (*Traces, error) {
	switch {
	case o.Exporter == nil:
		return nil, errors.New("traces of a host: an exporter is missing")
	case o.Ratio == 0:
		o.Ratio = 1
	case !(o.Ratio > 0 && o.Ratio <= 1):
		return nil, errors.New("traces of a host: the ratio must be above 0, and at most 1")
	}
	if o.Resource == nil {
		r, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "wfhost")), resource.Environment())
		if err != nil {
			return nil, err
		}
		o.Resource = r
	}
	t := &Traces{least: uint64((1 - o.Ratio) * (1 << 56)), recent: newRecent()}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(given{}), sdktrace.WithResource(o.Resource),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithBatcher(o.Exporter, sdktrace.WithMaxQueueSize(QueueSpans)))
	t.tracer = t.provider.Tracer(scope)
	return t, nil
}

// Close exports the queued spans, until ctx is done, and closes the exporter. Call it after the host is closed.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Events returns the events for the host: see host.Config.Events and host.JoinEvents.
func (t *Traces) Events() host.Events {
	return host.Events{RunStarted: t.started, RunEnded: t.ended, RunStuck: t.stuck, Activation: t.activation,
		AttemptEnded: t.attempt}
}

// records reports whether a trace is recorded. The last 7 bytes of its id decide, which must be random (W3C Trace
// Context, level 2), so that other programs that record a share choose the same traces.
func (t *Traces) records(of host.Trace) bool {
	return of.Sampled && binary.BigEndian.Uint64(of.ID[8:])&(math.MaxUint64>>8) >= t.least
}

// span is a span to export.
type span struct {
	name       string
	of         host.Trace // its id, and its parent's
	kind       trace.SpanKind
	from, to   time.Time
	link       trace.SpanContext // the previous span; none if invalid
	failure    string            // empty without a failure
	attributes []attribute.KeyValue
}

// tell exports a span, and returns its context for links.
func (t *Traces) tell(s *span) trace.SpanContext {
	ctx := context.WithValue(context.Background(), idKey{}, &s.of)
	if s.of.Parent != [8]byte{} {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.of.ID,
			SpanID: s.of.Parent, TraceFlags: trace.FlagsSampled, Remote: true}))
	}
	opts := []trace.SpanStartOption{trace.WithTimestamp(s.from), trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes...)}
	if s.link.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: s.link}))
	}
	_, x := t.tracer.Start(ctx, s.name, opts...)
	if s.failure != "" {
		x.SetStatus(codes.Error, s.failure)
	}
	x.End(trace.WithTimestamp(s.to))
	return x.SpanContext()
}

// below returns the id of a span below a run's.
func below(run host.Trace, id trace.SpanID) host.Trace {
	run.Parent, run.Span = run.Span, id
	return run
}

type idKey struct{}

// given is an id generator that returns the ids in the context.
type given struct{}

// NewIDs returns the ids of a span without a parent.
func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	of, _ := ctx.Value(idKey{}).(*host.Trace)
	return of.ID, of.Span
}

// NewSpanID returns the id of a span with a parent.
func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	of, _ := ctx.Value(idKey{}).(*host.Trace)
	return of.Span
}
