package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// Bounds of labels. A caller that may upload can create any number of names, and Prometheus keeps the series of each
// for weeks. With these bounds a host has at most some ten thousand series. The first names seen get series.
const (
	// MaxNamespaces is the number of namespaces with series of their own, most of which are counts by status.
	MaxNamespaces = 100
	// MaxWorkflows is the number of workflows with series of their own, in all namespaces together.
	MaxWorkflows = 400
	// MaxWorkflowsOfNamespace is the number of workflows of one namespace with series of their own, so that no
	// namespace uses up the room of the rest.
	MaxWorkflowsOfNamespace = 100
	// MaxHandlers is the number of handlers of steps with series of their own.
	MaxHandlers = 100
)

// Labels that stand for no name. No handler can have the label of bodies or of step functions, but one may be named
// "other".
const (
	other = "other"  // names beyond the bounds
	body  = "(body)" // steps that a workflow performs itself
)

type workflow struct{ namespace, name string }

// ofNamespace has the series of a namespace.
type ofNamespace struct {
	label string
	wakes prometheus.Counter
}

// ofWorkflow has the series of a workflow. All of them exist from the beginning, so that a rate includes the first
// increment.
type ofWorkflow struct {
	starts, stuck  prometheus.Counter
	deletes        prometheus.Counter
	ends           map[host.Status]prometheus.Counter
	fresh, replays prometheus.Counter // activations of new runs, and of runs with a journal
	thawed         prometheus.Counter // activations that continued from memory
	replayed, fuel prometheus.Counter
}

// ofHandler has the series of a handler.
type ofHandler struct {
	completed, failed prometheus.Counter
	seconds           prometheus.Observer
}

// byName creates the series whose labels are names of users.
func (m *Metrics) byName() {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
		m.registrations = append(m.registrations, v)
		return v
	}
	wakes := vec("wakes_total", "Runs that were woken because a timer of theirs was due.", "namespace")
	m.namespaces = newBounded(MaxNamespaces, other, func(name string) *ofNamespace {
		return &ofNamespace{label: name, wakes: wakes.WithLabelValues(name)}
	})
	starts := vec("run_starts_total", "Runs that were started.", "namespace", "workflow")
	ends := vec("run_ends_total", "Runs that ended, by how; one that is retried ends again.", "namespace", "workflow", "outcome")
	stuck := vec("run_stuck_total", "Runs that were left to a person.", "namespace", "workflow")
	deletes := vec("run_deletes_total", "Ended runs that were deleted, by hand or by a retention.", "namespace", "workflow")
	activations := vec("activations_total", "Activations that ended, by where they began: new, at a replay of the journal, or with "+
		"what was kept in memory.", "namespace", "workflow", "from")
	replayed := vec("replayed_entries_total", "Journal entries that activations went through again.", "namespace", "workflow")
	fuel := vec("fuel_total", "Fuel that workflows used, with replays and without bodies. A unit is about a nanosecond of "+
		"computing, or a byte that a call passes.", "namespace", "workflow")
	m.workflows = newBounded(MaxWorkflows, workflow{other, other}, func(w workflow) *ofWorkflow {
		n := &ofWorkflow{ends: map[host.Status]prometheus.Counter{}, starts: starts.WithLabelValues(w.namespace, w.name),
			stuck:    stuck.WithLabelValues(w.namespace, w.name),
			deletes:  deletes.WithLabelValues(w.namespace, w.name),
			fresh:    activations.WithLabelValues(w.namespace, w.name, "new"),
			replays:  activations.WithLabelValues(w.namespace, w.name, "replay"),
			thawed:   activations.WithLabelValues(w.namespace, w.name, "memory"),
			replayed: replayed.WithLabelValues(w.namespace, w.name), fuel: fuel.WithLabelValues(w.namespace, w.name)}
		for _, s := range []host.Status{host.Completed, host.Failed, host.Cancelled, host.Terminated} {
			n.ends[s] = ends.WithLabelValues(w.namespace, w.name, s.String())
		}
		return n
	})
	of := map[string]int{} // workflows per namespace; guarded by the lock of m.workflows
	m.workflows.admits = func(w workflow) bool {
		ok := of[w.namespace] < MaxWorkflowsOfNamespace
		if ok {
			of[w.namespace]++
		}
		return ok
	}
	attempts := vec("step_attempts_total", "Attempts of steps that ended; the handler of bodies and step functions is (body).",
		"handler", "outcome")
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "step_attempt_seconds", Buckets: attemptBounds,
		Help: "Time of an attempt of a step."}, []string{"handler"})
	m.registrations = append(m.registrations, seconds)
	m.handlers = newBounded(MaxHandlers, other, func(name string) *ofHandler {
		return &ofHandler{completed: attempts.WithLabelValues(name, "completed"), failed: attempts.WithLabelValues(name, "failed"),
			seconds: seconds.WithLabelValues(name)}
	})
}

// namespace returns the series of a namespace, by its name in events.
func (m *Metrics) namespace(name string) *ofNamespace {
	if name == "" {
		name = store.DefaultNamespace
	}
	return m.namespaces.get(name)
}

// workflow returns the series of a workflow.
func (m *Metrics) workflow(namespace, name string) *ofWorkflow {
	if namespace == "" {
		namespace = store.DefaultNamespace
	}
	w := workflow{namespace, name}
	if n, ok := m.workflows.known(w); ok {
		return n
	}
	if m.namespaces.get(namespace).label == other {
		return m.workflows.rest()
	}
	return m.workflows.get(w)
}

// handler returns the series of a handler; the empty name stands for bodies.
func (m *Metrics) handler(name string) *ofHandler {
	if name == "" {
		name = body
	}
	return m.handlers.get(name)
}

// bounded makes one value for each of the first names, and one for all other names together.
type bounded[K comparable, V any] struct {
	most   int
	make   func(K) V
	admits func(K) bool // nil: all; called with the lock held

	mu     sync.RWMutex // guards the field below; make and admits are called while it is held, and must not lock
	values map[K]V      // including the value of all other names
	others K
}

// newBounded returns a bounded with at most most values beside the one for other names.
func newBounded[K comparable, V any](most int, others K, make func(K) V) *bounded[K, V] {
	return &bounded[K, V]{most: most, make: make, values: map[K]V{}, others: others}
}

// known returns the value of a name if it has one.
func (b *bounded[K, V]) known(k K) (V, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	v, ok := b.values[k]
	return v, ok
}

// get returns the value of a name, or once the bound is reached the value of other names.
func (b *bounded[K, V]) get(k K) V {
	if v, ok := b.known(k); ok {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.values[k]; ok { // another goroutine has made it
		return v
	}
	if k != b.others && (b.full() || b.admits != nil && !b.admits(k)) {
		return b.restLocked()
	}
	v := b.make(k)
	b.values[k] = v
	return v
}

// full reports whether the bound is reached, not counting the value of other names.
func (b *bounded[K, V]) full() bool {
	n := len(b.values)
	if _, ok := b.values[b.others]; ok {
		n--
	}
	return n >= b.most
}

// rest returns the value of all other names.
func (b *bounded[K, V]) rest() V {
	if v, ok := b.known(b.others); ok {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.restLocked()
}

func (b *bounded[K, V]) restLocked() V {
	v, ok := b.values[b.others]
	if !ok {
		v = b.make(b.others)
		b.values[b.others] = v
	}
	return v
}
