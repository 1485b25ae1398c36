package host

import (
	"encoding/hex"

	"github.com/wfhost/wfhost/host/internal/traceid"
	"github.com/wfhost/wfhost/store"
)

// Trace is a span of a trace in W3C Trace Context. The ids are computed from durable data: they are the same after a
// restart, and on another host.
type Trace struct {
	ID      [16]byte // trace id: from WithTraceParent, or the run's own
	Span    [8]byte
	Parent  [8]byte // the parent span; zero if there is none
	Sampled bool    // false if WithTraceParent says that the trace is not recorded
}

// TraceID returns the id of the trace as 32 hexadecimal digits.
func (t Trace) TraceID() string { return hex.EncodeToString(t.ID[:]) }

// TraceParent formats the span as a header traceparent.
func (t Trace) TraceParent() string {
	return traceid.Context{Trace: t.ID, Span: t.Span, Parent: t.Parent, Sampled: t.Sampled}.String()
}

func traceOf(i store.Incarnation, header string) Trace { return trace(traceid.OfRun(i, header)) }

func trace(c traceid.Context) Trace {
	return Trace{ID: c.Trace, Span: c.Span, Parent: c.Parent, Sampled: c.Sampled}
}

// Trace returns the span of the run. Its parent is the caller's span, or that of the parent run.
func (r *Run) Trace() Trace { return traceOf(r.incarnation, r.traceParent) }

// Trace returns the span of the attempt, below that of its run. It is the span in TraceParent.
func (s *Step) Trace() Trace { return trace(s.span().Context()) }

// RunTrace returns the span of the activation's run.
func (a *ActivationInfo) RunTrace() Trace { return a.trace }
