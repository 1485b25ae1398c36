package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wfhost/wfhost/host"
)

// scrape reads from the host what events do not tell, at each scrape. It takes some microseconds and grows with the
// number of namespaces, but not with the number of runs.
type scrape struct {
	m     *Metrics
	runs  *prometheus.Desc
	stats []series[host.Stats]
	store []series[host.StoreStats]
	disk  []series[host.DiskState]

	cluster            []series[host.ClusterStats]
	acquired, forwards *prometheus.Desc
}

// series is a number that is read from a T.
type series[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(T) float64
}

func gaugeOf[T any](name, help string, of func(T) float64) series[T] {
	return series[T]{prometheus.NewDesc(prefix+name, help, nil, nil), prometheus.GaugeValue, of}
}

func counterOf[T any](name, help string, of func(T) float64) series[T] {
	return series[T]{prometheus.NewDesc(prefix+name, help, nil, nil), prometheus.CounterValue, of}
}

// send sends the series of a value.
func send[T any](ch chan<- prometheus.Metric, list []series[T], from T) {
	for _, s := range list {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.of(from))
	}
}

func newScrape(m *Metrics) *scrape {
	type (
		stats = host.Stats
		kept  = host.StoreStats
		disk  = host.DiskState
	)
	return &scrape{m: m,
		runs: prometheus.NewDesc(prefix+"runs", "Runs in the store, ended ones included, by status.",
			[]string{"namespace", "status"}, nil),
		stats: []series[stats]{
			gaugeOf("runs_busy", "Runs that something goes on with.", func(s stats) float64 { return float64(s.Runs) }),
			gaugeOf("timers", "Wakes of the next half a minute, which are in memory.", func(s stats) float64 { return float64(s.Timers) }),
			gaugeOf("wake_overdue_seconds", "How long the wake has been due that is due longest and has not happened.",
				func(s stats) float64 { return s.Overdue.Seconds() }),
			gaugeOf("starts_queued", "New runs that wait for an instance.", func(s stats) float64 { return float64(s.Queued) }),
			gaugeOf("guests_waiting", "Guests that wait for an instance, or for a place to go on in theirs.",
				func(s stats) float64 { return float64(s.Waiting) }),
			gaugeOf("attempts_waiting", "Attempts of steps that wait for their handlers, or for workers.",
				func(s stats) float64 { return float64(s.Attempts) }),
			gaugeOf("inbox_commands", "What runs want of each other that was read and not taken in yet; at most 1,024 of each partition.",
				func(s stats) float64 { return float64(s.Commands) }),
			gaugeOf("instances", "Live instances.", func(s stats) float64 { return float64(s.Instances) }),
			gaugeOf("guest_bytes", "Memory of all guests, as it counts for GuestBytes.",
				func(s stats) float64 { return float64(s.GuestBytes) }),
			gaugeOf("journal_bytes", "Memory of journals, as it counts for JournalBytes.",
				func(s stats) float64 { return float64(s.JournalBytes) }),
			gaugeOf("partitions", "Partitions that the host owns, of 64.", func(s stats) float64 { return float64(s.Partitions) }),
			counterOf("run_commits_total", "Changes of runs that became durable; a group commit has some.",
				func(s stats) float64 { return float64(s.Commits) }),
		},
		store: []series[kept]{
			gaugeOf("store_bytes", "Bytes of the files of the store.", func(s kept) float64 { return float64(s.Bytes) }),
			counterOf("store_write_stalls_total", "How often commits waited until the store had caught up with those before.",
				func(s kept) float64 { return float64(s.WriteStalls) }),
			counterOf("store_write_stall_seconds_total", "How long they waited, the stall included that goes on.",
				func(s kept) float64 { return s.Stalled.Seconds() }),
		},
		disk: []series[disk]{
			gaugeOf("disk_free_bytes", "Bytes of the disk of the store that the host may still write.",
				func(d disk) float64 { return float64(d.Free) }),
			gaugeOf("disk_size_bytes", "Bytes of the whole disk.", func(d disk) float64 { return float64(d.Total) }),
			gaugeOf("disk_reserve_bytes", "Free bytes that are kept for the runs that are there.",
				func(d disk) float64 { return float64(d.Reserve) }),
			gaugeOf("disk_full", "1 if new work is refused because less than the reserve is free.", func(d disk) float64 {
				if d.Full {
					return 1
				}
				return 0
			}),
			counterOf("disk_stalls_total", "Operations of the disk that took longer than two seconds.",
				func(d disk) float64 { return float64(d.Stalls) }),
		},
		cluster: ofCluster(),
		acquired: prometheus.NewDesc(prefix+"cluster_partitions_acquired_total",
			"Partitions that the host has acquired: by a takeover from a host that showed no life, or as planned.",
			[]string{"cause"}, nil),
		forwards: prometheus.NewDesc(prefix+"cluster_forwards_total",
			"Requests that the host has passed on to the hosts that own their runs, by result.", []string{"result"}, nil)}
}

func ofCluster() []series[host.ClusterStats] {
	type stats = host.ClusterStats
	return []series[stats]{
		gaugeOf("cluster_hosts", "Live hosts of the cluster that the host knows, with itself; 0 while it is not one of them.",
			func(s stats) float64 { return float64(s.Hosts) }),
		gaugeOf("cluster_partitions_unowned", "Partitions, of 64, that no live host owns, as the host knows.",
			func(s stats) float64 { return float64(s.Unowned) }),
		gaugeOf("cluster_lease_seconds", "How long the host keeps its partitions after its last beat.",
			func(s stats) float64 { return s.Lease.Seconds() }),
		gaugeOf("cluster_lease_margin_seconds", "The shortest time within the last minute after which the others would have taken "+
			"over, had there been no further beat.", func(s stats) float64 { return s.Margin.Seconds() }),
		gaugeOf("cluster_clock_skew_seconds", "How far the clock of the host is ahead of the store's.",
			func(s stats) float64 { return s.Skew.Seconds() }),
	}
}

// Describe implements prometheus.Collector.
func (s *scrape) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.runs
	for _, x := range s.stats {
		ch <- x.desc
	}
	for _, x := range s.store {
		ch <- x.desc
	}
	for _, x := range s.disk {
		ch <- x.desc
	}
	for _, x := range s.cluster {
		ch <- x.desc
	}
	ch <- s.acquired
	ch <- s.forwards
}

// countPatience bounds how long a scrape waits for the counts of runs, which are in memory.
const countPatience = 5 * time.Second

// Collect implements prometheus.Collector.
func (s *scrape) Collect(ch chan<- prometheus.Metric) {
	h := s.m.host.Load()
	if h == nil {
		return
	}
	send(ch, s.stats, h.Stats())
	if x, err := h.ClusterStats(); err == nil { // of no cluster otherwise
		s.sendCluster(ch, x)
	}
	var failed bool
	if x, err := h.StoreStats(); err == nil {
		send(ch, s.store, x)
	} else {
		failed = failed || !errors.Is(err, host.ErrNotFound)
	}
	if x, err := h.Disk(); err == nil {
		send(ch, s.disk, x)
	} else {
		failed = failed || !errors.Is(err, host.ErrNotFound)
	}
	if err := s.count(ch, h); err != nil {
		failed = true
	}
	if failed {
		s.m.scrapeErrors.Inc()
	}
}

// count sends the numbers of runs by status: per namespace with a label of its own, and for all other namespaces
// together.
func (s *scrape) count(ch chan<- prometheus.Metric, h *host.Host) error {
	ctx, cancel := context.WithTimeout(context.Background(), countPatience)
	defer cancel()
	all, err := h.CountsByNamespace(ctx)
	if err != nil {
		return err
	}
	sums := map[string]host.RunCounts{}
	for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, so that the same namespaces get labels after each start
		label := s.m.namespace(name).label
		if sums[label] == nil {
			sums[label] = host.RunCounts{}
		}
		for status, n := range all[name] {
			sums[label][status] += n
		}
	}
	for label, counts := range sums {
		for status, n := range counts {
			ch <- prometheus.MustNewConstMetric(s.runs, prometheus.GaugeValue, float64(n), label, status.String())
		}
	}
	return nil
}

func (s *scrape) sendCluster(ch chan<- prometheus.Metric, from host.ClusterStats) {
	send(ch, s.cluster, from)
	count := func(d *prometheus.Desc, n uint64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	count(s.acquired, from.TakenOver, "takeover")
	count(s.acquired, from.Moved, "planned")
	for result, n := range from.Forwards {
		count(s.forwards, n, string(result))
	}
}
