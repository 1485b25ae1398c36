// Package metrics measures a host for Prometheus. It listens to the host's events, and reads the rest from the host
// when it is scraped:
//
//	m, err := metrics.New(metrics.Options{})
//	h, err := host.Open(ctx, host.Config{Events: m.Events()})
//	m.Watch(h)
//	http.Handle("/metrics", m.Handler())
//
// Labels are bounded: no series has the id of a run, and names beyond MaxNamespaces, MaxWorkflows and MaxHandlers
// share the label "other". docs/operate/metrics.md lists the series.
package metrics

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wfhost/wfhost/host"
)

// Options are the options of New. The zero value is usable.
type Options struct {
	// Registry takes the series. Default: a new registry, which also has the series of the process and of Go's
	// runtime.
	Registry *prometheus.Registry
	// Version is the version of the program, for wfhost_build_info. Default: the version that the Go toolchain wrote
	// into it.
	Version string
}

// Metrics measures one host. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	host     atomic.Pointer[host.Host]

	namespaces *bounded[string, *ofNamespace]
	workflows  *bounded[workflow, *ofWorkflow]
	handlers   *bounded[string, *ofHandler]

	lateness      prometheus.Histogram
	activation    *prometheus.HistogramVec // by end
	replay        prometheus.Histogram
	commit        prometheus.Histogram
	commitRuns    prometheus.Histogram
	commitBytes   prometheus.Histogram
	commitErrors  prometheus.Counter
	refused       prometheus.Counter
	requests      map[string]prometheus.Counter // of transactions, by outcome
	faults        prometheus.Counter
	lost          prometheus.Counter
	storeFailed   prometheus.Gauge
	scrapeErrors  prometheus.Counter
	registrations []prometheus.Collector
}

// Bounds of the buckets of histograms, in seconds, runs and bytes.
var (
	// latenessBounds begin at a millisecond, the resolution of deadlines.
	latenessBounds = []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
	// activationBounds range from a guest that continues from memory to the longest computation that is allowed.
	activationBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	attemptBounds    = []float64{.0001, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 3600}
	// commitBounds range from the fsync of a good disk to the fsync of a failing disk.
	commitBounds      = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	commitRunsBounds  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	commitBytesBounds = prometheus.ExponentialBuckets(256, 4, 9) // to 16 MiB: a batch has 4 MiB, and one run more
)

// New returns metrics for a host that is not open yet. It returns an error if the registry has a series of the same
// name.
func New(o Options) (*Metrics, error) {
	m := &Metrics{registry: o.Registry}
	if m.registry == nil {
		m.registry = prometheus.NewRegistry()
		m.registrations = append(m.registrations, collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	m.measure()
	m.byName()
	if o.Version == "" {
		o.Version = "unknown"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			o.Version = info.Main.Version
		}
	}
	m.gauge("build_info", "Constant 1, with the version of the program and of Go.",
		prometheus.Labels{"version": o.Version, "goversion": runtime.Version()}).Set(1)
	m.registrations = append(m.registrations, newScrape(m))
	for _, c := range m.registrations {
		if err := m.registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of a host: %w", err)
		}
	}
	return m, nil
}

// measure creates the series without names of users in their labels.
func (m *Metrics) measure() {
	m.lateness = m.histogram("wake_lateness_seconds", "Time from the deadline of a run until it was woken, in whole milliseconds.",
		latenessBounds)
	m.activation = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "activation_seconds",
		Help:    "Time of an activation from its first place to its end, with what it waited for in its instance, by how it ended.",
		Buckets: activationBounds}, []string{"end"})
	m.registrations = append(m.registrations, m.activation)
	m.replay = m.histogram("replay_seconds", "Time that an activation with a journal took until its workflow was where it had "+
		"waited.", activationBounds)
	m.commit = m.histogram("commit_seconds", "Time of a group commit, its fsync included.", commitBounds)
	m.commitRuns = m.histogram("commit_runs", "Runs that a group commit changed.", commitRunsBounds)
	m.commitBytes = m.histogram("commit_bytes", "Bytes of the journal entries in a group commit, about, before compression.",
		commitBytesBounds)
	m.commitErrors = m.counter("commit_errors_total", "Group commits that failed, or of which nobody knows whether they are "+
		"durable.")
	m.refused = m.counter("uploads_refused_total", "Modules that were refused.")
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "transaction_requests_total",
		Help: "Attempts of starts, signals and cancels of SQL transactions, by outcome."}, []string{"outcome"})
	m.registrations = append(m.registrations, requests)
	m.requests = map[string]prometheus.Counter{}
	for _, outcome := range []string{"done", "again", "refused"} {
		m.requests[outcome] = requests.WithLabelValues(outcome)
	}
	m.faults = m.counter("host_faults_total", "Activations that could not be performed because of the host; each is repeated.")
	m.lost = m.counter("partitions_lost_total", "Partitions that the host lost or released.")
	m.storeFailed = m.gauge("store_failed", "1 if a write or fsync has failed: the host accepts nothing any more.", nil)
	m.scrapeErrors = m.counter("scrape_errors_total", "Scrapes in which something could not be read; its series were missing.")
}

const prefix = "wfhost_"

func (m *Metrics) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: bounds})
	m.registrations = append(m.registrations, h)
	return h
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	m.registrations = append(m.registrations, c)
	return c
}

func (m *Metrics) gauge(name, help string, labels prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help, ConstLabels: labels})
	m.registrations = append(m.registrations, g)
	return g
}

// Watch sets the host to read at each scrape. Series of the host are missing before Watch, and when the host cannot be
// read.
func (m *Metrics) Watch(h *host.Host) { m.host.Store(h) }

// Registry returns the registry of the series. An embedder may add its own series.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// maxScrapes bounds concurrent scrapes: two Prometheus servers, and people.
const maxScrapes = 4

// Handler returns the handler of scrapes. It answers 503 to more than four concurrent scrapes, and asks for no
// credentials.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true})
}

// Events returns the measuring events for host.Config.Events; host.JoinEvents combines them with an embedder's own.
// They take about a microsecond, and allocate only for new names.
func (m *Metrics) Events() host.Events {
	return host.Events{
		RunStarted: func(r host.Run) { m.workflow(r.Namespace, r.Workflow).starts.Inc() },
		RunEnded: func(r host.Run, _ time.Duration) {
			if c := m.workflow(r.Namespace, r.Workflow).ends[r.Status]; c != nil {
				c.Inc()
			}
		},
		RunDeleted: func(r host.Run) { m.workflow(r.Namespace, r.Workflow).deletes.Inc() },
		RunStuck:   func(r host.Run) { m.workflow(r.Namespace, r.Workflow).stuck.Inc() },
		Wake: func(w host.WakeInfo) {
			m.namespace(w.Namespace).wakes.Inc()
			m.lateness.Observe(w.Late.Seconds())
		},
		Activation:    m.activated,
		AttemptEnded:  m.attempted,
		Commit:        m.committed,
		UploadRefused: func(string, error) { m.refused.Inc() },
		Request:       m.requested,
		HostFault:     func(host.FaultInfo) { m.faults.Inc() },
		PartitionLost: func(int, error) { m.lost.Inc() },
		StoreFailed:   func(error) { m.storeFailed.Set(1) },
	}
}

func (m *Metrics) activated(a host.ActivationInfo) {
	w := m.workflow(a.Namespace, a.Workflow)
	m.activation.WithLabelValues(a.End).Observe(a.Total.Seconds())
	w.fuel.Add(float64(a.Fuel))
	switch {
	case a.Thawed:
		w.thawed.Inc()
	case a.Replayed > 0:
		w.replays.Inc()
		w.replayed.Add(float64(a.Replayed))
		m.replay.Observe(a.Replay.Seconds())
	default:
		w.fresh.Inc()
	}
}

func (m *Metrics) attempted(a host.AttemptInfo) {
	h := m.handler(a.Handler)
	if a.Err == nil {
		h.completed.Inc()
	} else {
		h.failed.Inc()
	}
	h.seconds.Observe(a.Duration.Seconds())
}

func (m *Metrics) requested(r host.RequestInfo) {
	switch {
	case r.Err == nil:
		m.requests["done"].Inc()
	case r.Again > 0:
		m.requests["again"].Inc()
	default:
		m.requests["refused"].Inc()
	}
}

func (m *Metrics) committed(c host.CommitInfo) {
	if c.Err != nil {
		m.commitErrors.Inc()
	}
	m.commit.Observe(c.Duration.Seconds())
	m.commitRuns.Observe(float64(c.Runs))
	m.commitBytes.Observe(float64(c.Bytes))
}
