package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestEverySeriesMoves makes every measured event happen to a host, and checks each series in the meantime.
func TestEverySeriesMoves(t *testing.T) {
	w := newWorld(t)
	w.scrape() // nothing is watched yet
	w.m.Watch(w.Host.Host)
	w.scrape()
	if _, err := w.Upload(ctx, "bad", []byte("not Wasm")); err == nil {
		t.Fatal("accepted")
	}
	w.start("nap", "n")
	w.start("step", "s")
	w.scrape() // there are timers
	w.Advance(time.Hour)
	w.scrape()
	if err := w.Delete(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	w.scrape()
	w.start("step", "s2")
	w.start("late", "waits-for-a-handler")
	w.Settle()
	w.scrape()
	host.HandleStep(w.Host.Host, "late", func(context.Context, *int) (int, error) { return 1, nil })
	w.Settle()
	w.crowd()
	w.hold()
	w.fault()
	if err := w.ReleasePartitions(ctx, 0); err != nil {
		t.Fatal(err)
	}
	w.set(func(x *trouble) {
		x.disk = store.Disk{Path: "db", Free: 1, Total: 1 << 20, Stalls: 2}
		x.measures = store.Measures{Bytes: 9, WriteStalls: 1, Stalled: time.Second}
		x.tallies = errors.New("a sector cannot be read")
	})
	w.scrape() // counts what was missing after it
	w.set(func(x *trouble) { x.disk.Free, x.tallies = 1<<19, nil })
	w.scrape()
	w.overdue()
	w.cluster()
	w.CrashAt(0, false)
	if err := w.Terminate(ctx, "kid"); !errors.Is(err, host.ErrStoreFailed) {
		t.Fatal(err)
	}
	w.until("the failure is reported", func() bool { return w.scrape()["wfhost_store_failed"] == 1 })
	if n := len(wfhosts(w.seen)); n < 40 {
		t.Errorf("there are %d series", n)
	}
	still := []string{"wfhost_build_info", "wfhost_cluster_lease_seconds", "wfhost_transaction_requests_total"} // needs PostgreSQL
	for _, name := range wfhosts(w.seen) {
		if len(w.seen[name]) < 2 && !slices.Contains(still, name) {
			t.Errorf("%s does not move: it is always %v", name, slices.Collect(maps.Keys(w.seen[name])))
		}
	}
}

// wfhosts returns the series of the host.
func wfhosts[V any](all map[string]V) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// crowd has a run with a large journal compute while others wait for its place.
func (w *world) crowd() {
	w.t.Helper()
	if _, err := w.StartRaw(ctx, "spin", []byte(`"`+strings.Repeat("x", 100<<10)+`"`), host.WithRunID("spin")); err != nil {
		w.t.Fatal(err)
	}
	w.Clock.Set(w.Clock.Now().Add(time.Second))
	w.until("the run computes", func() bool { // its start is durable, so it does not give up its place for a commit
		r, err := w.Get(ctx, "spin")
		s := w.Stats()
		return err == nil && r.Entries > 1 && s.Instances == 1 && s.Runs > 0
	})
	const most = 50
	started, n := make(chan error, most), 0
	begin := func() {
		id := fmt.Sprint("waits", n)
		n++
		go func() {
			_, err := w.StartRaw(ctx, "nap", nil, host.WithRunID(id))
			started <- err
		}()
	}
	begin()
	w.until("others wait", func() bool {
		s := w.Stats()
		if s.Waiting < 2 || s.JournalBytes == 0 || s.GuestBytes == 0 || w.scrape()["wfhost_starts_queued"] == 0 {
			if n < most { // on a busy machine, some get a place while the first run waits for its next slice
				begin()
			}
			return false
		}
		return true
	})
	if err := w.Terminate(ctx, "spin"); err != nil {
		w.t.Fatal(err)
	}
	for range n {
		if err := <-started; err != nil {
			w.t.Fatal(err)
		}
	}
	w.Settle()
	if s := w.Stats(); s.Queued != 0 || s.Waiting != 0 || s.Instances != 0 {
		w.t.Errorf("nobody waits any more: %+v", s)
	}
}

// hold keeps the start of a child in the inbox.
func (w *world) hold() {
	w.t.Helper()
	held := make(chan struct{})
	w.set(func(x *trouble) { x.version = held })
	w.start("parent", "p")
	w.until("the child waits", func() bool { return w.Stats().Commands == 1 })
	w.scrape()
	w.set(func(x *trouble) { x.version = nil })
	close(held)
	w.Settle()
	if n := w.Stats().Commands; n != 0 {
		w.t.Errorf("%d commands wait", n)
	}
}

// fault makes a run stuck by an unreadable module.
func (w *world) fault() {
	w.t.Helper()
	w.start("nap", "stuck")
	w.set(func(x *trouble) { x.get = errors.New("a sector cannot be read") })
	w.Reopen() // with no module in memory
	w.m.Watch(w.Host.Host)
	w.Advance(time.Hour)
	w.set(func(x *trouble) { x.get = nil })
	if r, err := w.Get(ctx, "stuck"); err != nil || r.Status != host.Stuck {
		w.t.Fatal(r.Status, err)
	}
	w.scrape()
}

// overdue has a schedule come due on a host that does not run, so that its wake is late.
func (w *world) overdue() {
	w.t.Helper()
	data := memstore.New()
	open := func() *host.Host {
		h, err := host.Open(ctx, host.Config{Store: data.Open(), Clock: w.Clock})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = h.Close() })
		return h
	}
	h := open()
	if _, err := h.Schedules().Create(ctx, "never", host.ScheduleSpec{Workflow: "none", When: "@hourly"}); err != nil {
		w.t.Fatal(err)
	}
	w.Clock.Set(w.Clock.Now().Add(3 * time.Hour))
	w.m.Watch(h)
	w.until("the schedule is late", func() bool { return w.scrape()["wfhost_wake_overdue_seconds"] > 3600 })
	w.m.Watch(w.Host.Host)
}

// TestActivations counts activations by how they began, and measures only replays.
func TestActivations(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := m.Events()
	for _, a := range []host.ActivationInfo{
		{Workflow: "w", Fuel: 10, End: "suspended", Total: time.Second},
		{Workflow: "w", Fuel: 20, End: "suspended", Replayed: 7, Replay: time.Millisecond, Total: time.Second},
		{Workflow: "w", Fuel: 30, End: "completed", Thawed: true, Replay: time.Millisecond, Total: time.Second},
	} {
		e.Activation(a)
	}
	e.AttemptEnded(host.AttemptInfo{Err: errors.New("declined")})
	e.AttemptEnded(host.AttemptInfo{Handler: "pay", Duration: 2 * time.Second})
	e.Wake(host.WakeInfo{Namespace: "team-a", Late: 3 * time.Millisecond})
	e.RunEnded(host.Run{Workflow: "w", Namespace: "team-a", Status: host.Cancelled}, 0)
	e.Commit(host.CommitInfo{Runs: 3, Bytes: 300, Duration: time.Millisecond, Err: errors.New("unknown")})
	text := scrapeText(t, m)
	for _, line := range []string{
		`wfhost_activations_total{from="new",namespace="default",workflow="w"} 1`,
		`wfhost_activations_total{from="replay",namespace="default",workflow="w"} 1`,
		`wfhost_activations_total{from="memory",namespace="default",workflow="w"} 1`,
		`wfhost_activation_seconds_count{end="suspended"} 2`,
		`wfhost_replay_seconds_count 1`,
		`wfhost_replayed_entries_total{namespace="default",workflow="w"} 7`,
		`wfhost_fuel_total{namespace="default",workflow="w"} 60`,
		`wfhost_step_attempts_total{handler="(body)",outcome="failed"} 1`,
		`wfhost_step_attempts_total{handler="pay",outcome="completed"} 1`,
		`wfhost_step_attempts_total{handler="pay",outcome="failed"} 0`,
		`wfhost_step_attempt_seconds_sum{handler="pay"} 2`,
		`wfhost_wakes_total{namespace="team-a"} 1`,
		`wfhost_wake_lateness_seconds_bucket{le="0.005"} 1`,
		`wfhost_run_ends_total{namespace="team-a",outcome="cancelled",workflow="w"} 1`,
		`wfhost_commit_seconds_count 1`, `wfhost_commit_runs_sum 3`, `wfhost_commit_bytes_sum 300`, `wfhost_commit_errors_total 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func scrapeText(t *testing.T, m *Metrics) string {
	t.Helper()
	r := httptest.NewRecorder()
	m.Handler().ServeHTTP(r, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	if r.Code != http.StatusOK {
		t.Fatal(r.Code, r.Body)
	}
	return r.Body.String()
}

// TestLabelsAreBounded has more namespaces, workflows and handlers than may have labels, and one namespace with many
// workflows.
func TestLabelsAreBounded(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := m.Events()
	const many = 1000
	for i := range many {
		e.RunStarted(host.Run{Namespace: "greedy", Workflow: fmt.Sprint("w", i)})
		e.AttemptEnded(host.AttemptInfo{Handler: fmt.Sprint("h", i)})
	}
	for i := range many {
		ns := fmt.Sprint("n", i)
		e.RunStarted(host.Run{Namespace: ns, Workflow: "w"})
		e.RunStarted(host.Run{Namespace: ns, Workflow: "w2"})
		e.RunStarted(host.Run{Namespace: ns, Workflow: "w3"})
		e.RunStarted(host.Run{Namespace: ns, Workflow: "w4"})
		e.Wake(host.WakeInfo{Namespace: ns})
	}
	text := scrapeText(t, m)
	count := func(start string) int { return strings.Count(text, "\n"+start) }
	for start, want := range map[string]int{
		"wfhost_run_starts_total{":                      MaxWorkflows + 1,
		`wfhost_run_starts_total{namespace="greedy"`:    MaxWorkflowsOfNamespace,
		"wfhost_wakes_total{":                           MaxNamespaces + 1,
		"wfhost_step_attempt_seconds_count{":            MaxHandlers + 1,
		`wfhost_step_attempt_seconds_count{handler="o`:  1,
		`wfhost_run_starts_total{namespace="other",wor`: 1,
	} {
		if n := count(start); n != want {
			t.Errorf("%s has %d series, want %d", start, n, want)
		}
	}
	sum := 0.0
	for _, line := range strings.Split(text, "\n") {
		var n float64
		if rest, ok := strings.CutPrefix(line, "wfhost_run_starts_total{"); ok {
			_, number, _ := strings.Cut(rest, "} ")
			_, _ = fmt.Sscan(number, &n)
			sum += n
		}
	}
	if sum != 5*many {
		t.Errorf("%v starts are counted, there were %d", sum, 5*many)
	}
	if lines := strings.Count(text, "\nwfhost_"); lines > 15_000 {
		t.Errorf("a scrape has %d lines", lines)
	}
}

// TestWorkflowsOfOtherNamespaces: a namespace without a label of its own does not get one through its workflows.
func TestWorkflowsOfOtherNamespaces(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := m.Events().RunStarted
	for i := range 2 * MaxNamespaces {
		start(host.Run{Namespace: fmt.Sprint("n", i), Workflow: "w"})
	}
	if n := strings.Count(scrapeText(t, m), "\nwfhost_run_starts_total{"); n != MaxNamespaces+1 {
		t.Errorf("there are %d series, want those of %d namespaces, and of the others", n, MaxNamespaces)
	}
}

// TestEventsAllocateNothing calls the most frequent events, with names that were seen before.
func TestEventsAllocateNothing(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := m.Events()
	for name, f := range map[string]func(){
		"wake":       func() { e.Wake(host.WakeInfo{RunID: "r", Late: time.Millisecond}) },
		"activation": func() { e.Activation(host.ActivationInfo{Workflow: "w", End: "suspended", Replayed: 3}) },
		"attempt":    func() { e.AttemptEnded(host.AttemptInfo{Handler: "pay"}) },
		"commit":     func() { e.Commit(host.CommitInfo{Runs: 3, Bytes: 300}) },
	} {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestRegistry registers the series in an existing registry, once.
func TestRegistry(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := New(Options{Registry: r, Version: "1.2.3"})
	if err != nil || m.Registry() != r {
		t.Fatal(err)
	}
	text := scrapeText(t, m)
	if !strings.Contains(text, `,version="1.2.3"} 1`) || strings.Contains(text, "go_goroutines") {
		t.Error(text)
	}
	if _, err := New(Options{Registry: r}); err == nil || !strings.Contains(err.Error(), "metrics of a host: ") {
		t.Error(err)
	}
}
