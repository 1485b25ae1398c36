package traces

import (
	"crypto/rand"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/wfhost/wfhost/host/internal/lru"
)

// recentRuns is of how many runs the newest activation is remembered, for the link of the next: a few megabytes. The next
// activation of another run, or of any after a restart of the host, has no link; it is below the run's start all the same.
const recentRuns = 16_384

// recent remembers the newest activations.
type recent struct {
	mu   sync.Mutex
	runs map[trace.SpanID]*lru.Place[last]
	list lru.List[last]
}

// last is the newest activation of a run.
type last struct {
	run  trace.SpanID
	span trace.SpanContext
}

func newRecent() recent {
	return recent{runs: map[trace.SpanID]*lru.Place[last]{}, list: lru.List[last]{Limit: recentRuns}}
}

// set remembers an activation of the run that has a span.
func (r *recent) set(run trace.SpanID, span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.runs[run]; p != nil {
		r.list.Remove(p)
	}
	r.runs[run] = r.list.Add(last{run, span}, 1)
	if oldest, ok := r.list.Excess(); ok {
		r.list.Remove(r.runs[oldest.run])
		delete(r.runs, oldest.run)
	}
}

// get returns the newest activation of a run; one that is not valid if there is none.
func (r *recent) get(run trace.SpanID) trace.SpanContext { return r.find(run, false) }

// take is get, and forgets the activation.
func (r *recent) take(run trace.SpanID) trace.SpanContext { return r.find(run, true) }

func (r *recent) find(run trace.SpanID, forget bool) (span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runs[run]
	if p == nil {
		return span
	}
	span = p.Thing().span
	if forget {
		r.list.Remove(p)
		delete(r.runs, run)
	}
	return span
}

// randomID returns the id of a span that is told once.
func randomID() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // it does not fail
	return id
}
