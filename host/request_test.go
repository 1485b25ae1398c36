package host_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/wfhost/wfhost/client/sqltx"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// asked is a database with a host, and a connection of an application.
type asked struct {
	*pgx.Conn
	*host.Host
	t      *testing.T
	url    string
	events chan host.RequestInfo // of all attempts
	stop   func()
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{t: t, url: pgtest.Fresh(t), events: make(chan host.RequestInfo, 10_000)}
	c, err := pgx.Connect(ctx, a.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(ctx) })
	a.Conn = c
	a.open(host.Config{}, nil)
	_, err = a.Upload(ctx, "", hosttest.Build(t, "testdata/primitives"), host.AllowStep("*"))
	do(t, err)
	return a
}

// open opens the host. wrap wraps its store.
func (a *asked) open(cfg host.Config, wrap func(*postgres.Store) store.Store) {
	a.t.Helper()
	s, err := postgres.Open(ctx, a.url, postgres.Options{Unsafe: true})
	if err != nil {
		a.t.Fatal(err)
	}
	cfg.Store, cfg.CacheDir, cfg.Drain = s, vaultCache(a.t), -1
	cfg.Events.Request = func(r host.RequestInfo) { a.events <- r }
	if wrap != nil {
		cfg.Store = wrap(s)
	}
	a.Host, err = host.Open(ctx, cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	host.HandleStep(a.Host, "mail", func(_ context.Context, text string) (string, error) { return "sent " + text, nil })
	host.HandleStep(a.Host, "flaky", func(context.Context, string) (string, error) { return "", errors.New("out of order") })
	run, cancel := context.WithCancel(ctx)
	ended, h := make(chan error, 1), a.Host
	go func() { ended <- h.Run(run) }()
	stopped := false
	a.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			do(a.t, errors.Join(<-ended, h.Close(), s.Close()))
		}
	}
	a.t.Cleanup(a.stop)
}

func (a *asked) exec(query string, args ...any) {
	a.t.Helper()
	if _, err := a.Exec(ctx, query, args...); err != nil {
		a.t.Fatalf("%s: %v", query, err)
	}
}

func (a *asked) text(query string, args ...any) (text string) {
	a.t.Helper()
	if err := a.QueryRow(ctx, query, args...).Scan(&text); err != nil {
		a.t.Fatalf("%s: %v", query, err)
	}
	return text
}

// next returns the next attempt of a request, with its outcome.
func (a *asked) next() string {
	a.t.Helper()
	r := <-a.events
	outcome := "done"
	if r.Err != nil {
		outcome = "refused: " + r.Err.Error()
		if r.Again > 0 {
			outcome = "again: " + r.Err.Error()
		}
	}
	return fmt.Sprintf("%s %s %s", r.Kind, r.RunID, outcome)
}

// wants waits for attempts with these outcomes, of one run each or in their order.
func (a *asked) wants(outcomes ...string) {
	a.t.Helper()
	for len(outcomes) > 0 {
		got := a.next()
		at := slices.IndexFunc(outcomes, func(want string) bool { return strings.HasPrefix(got, want) })
		if at < 0 {
			a.t.Fatalf("got %q, want one of %q", got, outcomes)
		}
		outcomes = slices.Delete(outcomes, at, at+1)
	}
}

// nothing checks that no request is left.
func (a *asked) nothing() {
	a.t.Helper()
	if left := a.text("select coalesce(string_agg(format('%s %s %s', kind, run, reason), ', '), '') from wfhost.requests"); left != "" {
		a.t.Errorf("left: %s", left)
	}
}

func (a *asked) result(id, want string) {
	a.t.Helper()
	if got, err := host.Result[string](ctx, a.Host, id); err != nil || got != want {
		a.t.Errorf("run %s: %q, %v, want %q", id, got, err, want)
	}
}

// TestStartInTransaction starts and signals runs in transactions: of pgx and of database/sql, committed, rolled back, and rolled back
// to a savepoint.
func TestStartInTransaction(t *testing.T) {
	a := newAsked(t)
	tx, err := a.Begin(ctx)
	do(t, err)
	_, err = sqltx.Start(ctx, sqltx.Pgx(tx), "receive", 2, sqltx.StartOptions{RunID: "lost"})
	do(t, errors.Join(err, tx.Rollback(ctx)))

	tx, err = a.Begin(ctx)
	do(t, err)
	id, err := sqltx.Start(ctx, sqltx.Pgx(tx), "receive", 2, sqltx.StartOptions{RunID: "order-42", Version: 1, Attributes: map[string]string{"region": "eu"},
		Memo: "for <Ada>", Priority: 5, Timeout: time.Hour, At: time.Unix(1, 0), TraceParent: "nonsense", OnConflict: "fail"})
	if err != nil || id != "order-42" {
		t.Fatal(id, err)
	}
	do(t, sqltx.Signal(ctx, sqltx.Pgx(tx), "order-42", "go", "a", sqltx.SignalOptions{}))
	nested, err := tx.Begin(ctx)
	do(t, err)
	do(t, sqltx.Signal(ctx, sqltx.Pgx(nested), "order-42", "go", "lost", sqltx.SignalOptions{}))
	do(t, nested.Rollback(ctx))
	do(t, sqltx.Signal(ctx, sqltx.Pgx(tx), "order-42", "go", "b", sqltx.SignalOptions{IdempotencyKey: "k"}))
	do(t, sqltx.Signal(ctx, sqltx.Pgx(tx), "order-42", "go", "b", sqltx.SignalOptions{IdempotencyKey: "k"}))
	do(t, tx.Commit(ctx))
	a.wants("start order-42 done", "signal order-42 done", "signal order-42 done", "signal order-42 done")
	a.result("order-42", "a,b")
	r, err := a.Get(ctx, "order-42")
	if err != nil || r.Attributes["region"] != "eu" || string(r.Memo) != `"for <Ada>"` {
		t.Errorf("%+v, %v", r, err)
	}

	db, err := sql.Open("pgx", a.url)
	do(t, err)
	defer func() { _ = db.Close() }()
	std, err := db.BeginTx(ctx, nil)
	do(t, err)
	id, err = sqltx.Start(ctx, sqltx.SQL(std), "receive", 9, sqltx.StartOptions{})
	do(t, err)
	do(t, sqltx.Cancel(ctx, sqltx.SQL(std), id, ""))
	do(t, std.Commit())
	a.wants("start "+id+" done", "cancel "+id+" done")
	if r, err := a.Wait(ctx, id); err != nil || r.Status != host.Cancelled {
		t.Error(r.Status, err)
	}
	std, err = db.BeginTx(ctx, nil)
	do(t, err)
	_, err = sqltx.Start(ctx, sqltx.SQL(std), "receive", 9, sqltx.StartOptions{Namespace: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), `start of workflow "receive"`) || !strings.Contains(err.Error(), `there is no namespace "nowhere"`) {
		t.Error(err)
	}
	do(t, std.Rollback())
	if _, err := a.Get(ctx, "lost"); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("a run of a transaction that was rolled back: %v", err)
	}
	a.nothing()
}

// TestRequestsWhileNoHostRuns asks while no host runs: for 1,000 runs in one transaction, one of them in another namespace.
func TestRequestsWhileNoHostRuns(t *testing.T) {
	a := newAsked(t)
	ns, err := a.Namespace(ctx, "other")
	do(t, err)
	_, err = ns.Upload(ctx, "", hosttest.Build(t, "testdata/primitives"))
	do(t, err)
	a.stop()
	a.exec("select wfhost.start('receive', 'r' || g, '1'), wfhost.signal('r' || g, 'go', to_jsonb('s' || g)) from generate_series(1, 1000) g")
	a.exec(`select wfhost.start('receive', 'r1', '1', 'other'), wfhost.signal('r1', 'go', '"other"', 'other')`)
	began := time.Now()
	a.open(host.Config{}, nil)
	for range 2 * 1001 {
		if got := a.next(); !strings.HasSuffix(got, "done") {
			t.Fatal(got)
		}
	}
	t.Logf("1,001 starts and signals: %v after the host was opened", time.Since(began))
	for i := 1; i <= 1000; i += 37 {
		a.result(fmt.Sprint("r", i), fmt.Sprint("s", i))
	}
	ns, err = a.Namespace(ctx, "other")
	do(t, err)
	if r, err := ns.Wait(ctx, "r1"); err != nil || r.Status != host.Completed {
		t.Error(r, err)
	}
	a.nothing()
}

// forgetful loses the results of requests, as a crash after the requests were done does.
type forgetful struct {
	*postgres.Store
	mu   sync.Mutex
	lost map[int64]int // how often, by request
}

func (f *forgetful) EndRequests(_ context.Context, results []store.RequestResult) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range results {
		f.lost[r.ID]++
	}
	return store.ErrUnknown
}

// twice returns the number of requests that were done and lost twice.
func (f *forgetful) twice() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, times := range f.lost {
		if times > 1 {
			n++
		}
	}
	return n
}

// TestRequestsAreDoneOnce has a host do requests, and lose that they are done, again and again. The next host does not repeat them,
// whatever became of the runs.
func TestRequestsAreDoneOnce(t *testing.T) {
	a := newAsked(t)
	a.stop()
	for _, policy := range []string{"existing", "fail", "terminate", "replace"} {
		a.exec("select wfhost.start('receive', $1, '2', on_conflict => $1), wfhost.signal($1, 'go', to_jsonb('a'::text))", policy)
	}
	a.exec("select wfhost.start('receive', 'gone', '0', on_conflict => 'replace')")
	a.exec("select wfhost.start('receive', 'cancelled', '1'), wfhost.cancel('cancelled')")
	f := &forgetful{lost: map[int64]int{}}
	a.open(host.Config{}, func(s *postgres.Store) store.Store { f.Store = s; return f })
	for _, id := range []string{"gone", "cancelled"} {
		for ended := false; !ended; {
			r, err := a.Wait(ctx, id)
			ended = err == nil && r.Status.Terminal()
		}
	}
	do(t, a.Delete(ctx, "gone"))
	created := map[string]time.Time{}
	for f.twice() < 4*2+3 {
		for _, id := range []string{"existing", "fail", "terminate", "replace"} {
			if r, err := a.Get(ctx, id); err == nil && created[id].IsZero() {
				created[id] = r.Created
			} else if err == nil && r.Created != created[id] {
				t.Fatalf("run %s was started again", id)
			}
		}
	}
	a.stop()
	if len(a.events) > 0 {
		t.Error(a.next())
	}
	a.open(host.Config{}, nil)
	for range 4*2 + 3 {
		if got := a.next(); !strings.HasSuffix(got, " done") {
			t.Error(got)
		}
	}
	if len(created) != 4 {
		t.Errorf("%v were started by the first host", created)
	}
	for id := range created {
		do(t, a.Signal(ctx, id, "go", "b"))
		a.result(id, "a,b")
	}
	if _, err := a.Get(ctx, "gone"); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("a deleted run was started again: %v", err)
	}
	a.nothing()
}

// TestRefusedRequests asks for what a host refuses: at once, after a minute, or as long as something is in the way.
func TestRefusedRequests(t *testing.T) {
	a := newAsked(t)
	a.exec("select wfhost.start('receive', 'r', '2'), wfhost.start('receive', 'r', '2')")
	a.wants("start r done", "start r done") // the same start twice
	a.exec("select wfhost.start('receive', 'r', '3')")
	a.wants(`start r refused: run "r"`)
	a.exec("select wfhost.start('receive', 'r', '2', on_conflict => 'fail')")
	a.wants(`start r refused: run "r"`)
	a.exec("select wfhost.start('receive', 'v', '2', version => 7)")
	a.wants(`start v again: `)
	a.exec("select wfhost.start('unknown', 'u', '2'), wfhost.signal('u', 'go'), wfhost.start('receive', 'other', '0')")
	a.wants(`start u again: `, "start other done")
	a.exec("update wfhost.request set attempts = 9") // a minute later
	for refused := 0; refused < 3; {                 // the signal, too
		if got := a.next(); strings.Contains(got, " refused: ") {
			refused++
		}
	}
	a.exec("select wfhost.cancel('other'), wfhost.signal('other', 'go', '1')")
	a.wants("cancel other done", "signal other refused: ")
	if got := a.text("select string_agg(format('%s %s %s', kind, run, name), ', ' order by id) from wfhost.requests where refused is not null " +
		"and reason is not null and next_attempt is null"); got != "start r receive, start r receive, start v receive, start u unknown, signal u go, signal other go" {
		t.Error(got)
	}
	report, err := postgres.Check(ctx, a.url)
	if err != nil || !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.HasPrefix(w, "6 requests") }) {
		t.Error(report.Warnings, err)
	}
	a.exec("select wfhost.delete_request(id) from wfhost.requests")
	a.nothing()

	// A quota is in the way: of one run, not of the other namespace.
	do(t, a.SetQuota(ctx, "", host.Quota{MaxRuns: 1}))
	a.exec(`select wfhost.start('receive', 'full', '1'), wfhost.signal('full', 'go', '"x"'), wfhost.signal('r', 'go', '"y"')`)
	a.wants("start full again: ", "signal r done")
	do(t, a.SetQuota(ctx, "", host.Quota{MaxRuns: 2}))
	a.exec("select wfhost.retry_request(id) from wfhost.requests where kind = 'start'")
	for got := ""; got != "signal full done"; { // the start may have been tried more often
		got = a.next()
	}
	a.result("full", "x")
	a.nothing()
}

// TestSignalBeforeItsStart asks for a signal with a lower number than the start of its run has, as concurrent transactions can.
func TestSignalBeforeItsStart(t *testing.T) {
	a := newAsked(t)
	a.stop()
	a.exec(`select wfhost.signal('r', 'go', '"a"')`)
	a.exec(`select wfhost.signal('r', 'go', '"b"')`)
	a.exec("select wfhost.start('receive', 'r', '2')")
	a.open(host.Config{}, nil)
	a.wants("start r done", "signal r done", "signal r done")
	a.result("r", "a,b")
}

// TestLatencyOfRequests measures the time from a commit until its run is durable: notified, and behind a pooler that drops
// notifications.
func TestLatencyOfRequests(t *testing.T) {
	a := newAsked(t)
	a.exec("select wfhost.start('receive', 'first', '0')")
	a.wants("start first done")
	measure := func(n int) (all []time.Duration) {
		for i := range n {
			began := time.Now()
			a.exec("select wfhost.start('receive', $1, '0')", fmt.Sprintf("r%d-%d", n, i))
			a.next()
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all
	}
	all := measure(100)
	t.Logf("notified: p50 %v, p90 %v, most %v, from before the statement until the request is deleted", all[50], all[90], all[99])
	if all[50] > 50*time.Millisecond {
		t.Errorf("half of the starts take %v or more", all[50])
	}
	a.exec("set wfhost.notify = off")
	all = measure(3)
	t.Logf("not notified: %v", all)
	if all[2] > 5*time.Second {
		t.Errorf("without notifications: %v", all)
	}
}

// TestRequestsOfTwoHosts has two hosts share a database. Each performs the requests for the runs of its partitions, and one takes the
// others over.
func TestRequestsOfTwoHosts(t *testing.T) {
	a := newAsked(t)
	a.stop()
	by := map[string]*atomic.Int64{"low": {}, "high": {}}
	open := func(name string, from, to int) (h *host.Host, stop func()) {
		s, err := postgres.Open(ctx, a.url, postgres.Options{Unsafe: true, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		cfg := host.Config{Store: s, CacheDir: vaultCache(t), Drain: -1, Partitions: []int{}}
		for p := from; p < to; p++ {
			cfg.Partitions = append(cfg.Partitions, p)
		}
		cfg.Events.Request = func(r host.RequestInfo) { by[name].Add(1); a.events <- r }
		h, err = host.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		run, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- h.Run(run) }()
		return h, func() {
			cancel()
			do(t, errors.Join(<-ended, h.Close(), s.Close()))
		}
	}
	_, stopLow := open("low", 0, 32)
	high, stopHigh := open("high", 32, 64)
	defer stopHigh()
	want := map[string]int64{}
	ask := func(n int) {
		t.Helper()
		for i := range 40 {
			id := fmt.Sprintf("r%d-%d", n, i)
			a.exec("select wfhost.start('receive', $1, '1'), wfhost.signal($1, 'go', to_jsonb($1))", id)
			if (store.RunKey{ID: id}).Partition() < 32 {
				want["low"] += 2
			} else {
				want["high"] += 2
			}
		}
		for range 80 {
			if got := a.next(); !strings.HasSuffix(got, " done") {
				t.Fatal(got)
			}
		}
	}
	ask(1)
	if by["low"].Load() != want["low"] || by["high"].Load() != want["high"] || want["low"] == 0 {
		t.Errorf("low performed %d, high %d; want %v", by["low"].Load(), by["high"].Load(), want)
	}
	stopLow()
	do(t, high.AcquirePartitions(ctx, func() (all []int) {
		for p := range 32 {
			all = append(all, p)
		}
		return all
	}()...))
	ask(2)
	a.Host = high
	for i := range 40 {
		for n := 1; n <= 2; n++ {
			id := fmt.Sprintf("r%d-%d", n, i)
			a.result(id, id)
		}
	}
	a.nothing()
}
