package traces

import (
	"crypto/rand"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/wfhost/wfhost/host/internal/lru"
)

// recentRuns is the number of runs whose newest activation is remembered, for the link of the next one: a few
// megabytes. For other runs, and after a restart of the host, the next activation has no link, but is still below the
// run's start.
const recentRuns = 16_384

// recent remembers the newest activations.
type recent struct {
	mu   sync.Mutex
	runs map[trace.SpanID]*lru.Item[last]
	list lru.List[last]
}

// last is the newest activation of a run.
type last struct {
	run  trace.SpanID
	span trace.SpanContext
}

func newRecent() recent {
	return recent{runs: map[trace.SpanID]*lru.Item[last]{}, list: lru.List[last]{Limit: recentRuns}}
}

// set stores the newest activation of the run with a span.
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

// get returns the newest activation of a run, an invalid one if there is none.
func (r *recent) get(run trace.SpanID) trace.SpanContext { return r.find(run, false) }

// take is get, and removes the activation.
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

// randomID returns the id of a span that is exported once.
func randomID() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
