package traces

import (
	"crypto/sha256"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wfhost/wfhost/host"
)

// Attributes. Names of users, ids and errors are only in values.
const (
	keyNamespace = attribute.Key("wfhost.namespace") // not in the default namespace
	keyRun       = attribute.Key("wfhost.run.id")
	keyWorkflow  = attribute.Key("wfhost.workflow")
	keyVersion   = attribute.Key("wfhost.version")
	keyParent    = attribute.Key("wfhost.run.parent")
	keySchedule  = attribute.Key("wfhost.schedule")
	keyStatus    = attribute.Key("wfhost.run.status")
	keyLived     = attribute.Key("wfhost.run.lived_ms")
	keyEnd       = attribute.Key("wfhost.activation.end")
	keyReplayed  = attribute.Key("wfhost.activation.replayed")
	keyReplay    = attribute.Key("wfhost.activation.replay_us")
	keyThawed    = attribute.Key("wfhost.activation.thawed")
	keyFuel      = attribute.Key("wfhost.activation.fuel")
	keyStep      = attribute.Key("wfhost.step")
	keyAttempt   = attribute.Key("wfhost.step.attempt")
	keyHandler   = attribute.Key("wfhost.step.handler")
	keyIdempot   = attribute.Key("wfhost.step.idempotency_key")
)

// of returns the attributes of all spans.
func of(namespace, run, workflow string, version uint32, more ...attribute.KeyValue) []attribute.KeyValue {
	all := append([]attribute.KeyValue{keyRun.String(run), keyWorkflow.String(workflow), keyVersion.Int64(int64(version))}, more...)
	if namespace != "" {
		all = append(all, keyNamespace.String(namespace))
	}
	return all
}

func (t *Traces) started(r host.Run) {
	at := r.Trace()
	if !t.records(at) {
		return
	}
	attributes := of(r.Namespace, r.ID, r.Workflow, r.Version)
	if r.Parent != "" {
		attributes = append(attributes, keyParent.String(r.Parent))
	}
	if r.Schedule != "" {
		attributes = append(attributes, keySchedule.String(r.Schedule))
	}
	t.tell(&span{name: "start " + r.Workflow, of: at, kind: trace.SpanKindConsumer, from: r.Created, to: r.Created,
		attributes: attributes})
}

// ended exports the end of a run. The span's id is a hash of the run's id and the time of the end, because a failed
// run that is retried ends again.
func (t *Traces) ended(r host.Run, lived time.Duration) {
	at := r.Trace()
	if !t.records(at) {
		return
	}
	s := &span{name: "end " + r.Workflow, of: below(at, derived(at, "end", r.Ended)), kind: trace.SpanKindInternal,
		from: r.Ended, to: r.Ended, link: t.recent.take(at.Span),
		attributes: of(r.Namespace, r.ID, r.Workflow, r.Version, keyStatus.String(r.Status.String()),
			keyLived.Int64(lived.Milliseconds()))}
	if r.Status == host.Failed {
		s.failure = r.Error
	}
	t.tell(s)
}

// stuck exports that a run needs a person.
func (t *Traces) stuck(r host.Run) {
	at := r.Trace()
	if !t.records(at) {
		return
	}
	t.tell(&span{name: "stuck " + r.Workflow, of: below(at, derived(at, "stuck", r.Updated)), kind: trace.SpanKindInternal,
		from: r.Updated, to: r.Updated, failure: r.Reason, attributes: of(r.Namespace, r.ID, r.Workflow, r.Version)})
}

func (t *Traces) activation(a host.ActivationInfo) {
	run := a.RunTrace()
	if !t.records(run) {
		return
	}
	s := &span{name: a.Workflow, of: below(run, randomID()), kind: trace.SpanKindInternal, from: a.Ended.Add(-a.Total), to: a.Ended,
		link: t.recent.get(run.Span), attributes: of(a.Namespace, a.RunID, a.Workflow, a.Version, keyEnd.String(a.End),
			keyReplayed.Int(a.Replayed), keyReplay.Int64(a.Replay.Microseconds()), keyThawed.Bool(a.Thawed), keyFuel.Int64(a.Fuel))}
	switch a.End {
	case "failed", "mismatch", "fault":
		s.failure = a.End
	}
	t.recent.set(run.Span, t.tell(s))
}

func (t *Traces) attempt(a host.AttemptInfo) {
	at := a.Step.Trace()
	if !t.records(at) {
		return
	}
	attributes := of(a.Step.Namespace, a.Step.RunID, a.Step.Workflow, a.Step.Version, keyStep.String(a.Step.Name),
		keyAttempt.Int(a.Step.Attempt), keyIdempot.String(a.Step.IdempotencyKey))
	s := &span{name: "step " + a.Step.Name, of: at, kind: trace.SpanKindInternal, from: a.Ended.Add(-a.Duration), to: a.Ended}
	if a.Handler != "" {
		s.kind, attributes = trace.SpanKindClient, append(attributes, keyHandler.String(a.Handler))
	}
	s.attributes = attributes
	if a.Err != nil {
		s.failure = a.Err.Error()
	}
	t.tell(s)
}

// derived returns the id of a span of a run.
func derived(run host.Trace, what string, at time.Time) trace.SpanID {
	sum := sha256.Sum256([]byte("wfhost " + what + "\x00" + string(run.Span[:]) + at.UTC().Format(time.RFC3339Nano)))
	return trace.SpanID(sum[:8])
}
