package host_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

var (
	upgradeRuns = flag.Int("upgrades.n", 24, "how many runs TestUpgrades starts, and a quarter as many with limits")
	upgradeSeed = flag.Uint64("upgrades.seed", 1, "where its hosts crash, and what its runs do")
)

// The versions of the workflows in testdata/year, by number.
const (
	_ uint32 = iota
	vFirst
	vTuned   // does the same
	vMarked  // has a step behind a marker
	vAudited // has a step without one
)

var versionNames = []string{vFirst: "first", vTuned: "tuned", vMarked: "marked", vAudited: "audited"}

// journey is the input of the workflows in testdata/year.
type journey struct {
	Customer int     `json:"customer"`
	Rounds   [][]int `json:"rounds"` // hours of the legs
	Round    int     `json:"round"`
	Done     string  `json:"done"`
}

// traveller is a run, and what the test knows about it without asking a host.
type traveller struct {
	id       string
	workflow string
	plan     journey

	// The handler changes what follows, under longYear.mu.
	at      *yearHost // where it acts
	version uint32
	done    string                 // what it has done; in the end, its result
	round   int                    // in which it is
	leg     int                    // in which it is, of that round
	audited bool                   // it has made the audit of this round
	keys    map[string]string      // idempotency keys of its steps
	acts    map[string][]time.Time // instants of their attempts

	left  map[*yearHost]time.Time // when it was last moved away from each host
	began time.Time               // when it began, once looked up; see longYear.begun
	freed time.Time               // when its slot on the first host was returned, if it was moved away
}

// yearHost is one of the hosts, with its store on disk.
type yearHost struct {
	*hosttest.Host
	name    string
	dir     string // of its data
	crashes int
}

// longYear is a year of two hosts.
type longYear struct {
	t     *testing.T
	rng   *rand.Rand
	clock *clock.Fake
	a, b  *yearHost
	code  [][]byte // of the versions

	mu   sync.Mutex
	runs map[string]*traveller

	ids     []string // of all runs, in order of their starts
	newest  uint32   // version
	events  []yearEvent
	limits  []limitsSince
	down    [2]time.Time // start and end of the time when both hosts are down
	refused int          // runs that did not fit a version
	moves   int
}

// yearEvent is an action of the test at an instant.
type yearEvent struct {
	at time.Time
	do func()
}

// on adds an event at a day of the year. Runs and schedules are due at whole minutes, so no event coincides with
// them.
func (y *longYear) on(day float64, do func()) {
	at := hosttest.Epoch.Add(time.Duration(day * float64(24*time.Hour))).Truncate(time.Minute)
	y.events = append(y.events, yearEvent{at.Add(29*time.Second + 7*time.Millisecond), do})
}

// open makes a host with the clock of the year.
func (y *longYear) open(name string) *yearHost {
	h := &yearHost{name: name, dir: y.t.TempDir()}
	h.Host = hosttest.New(y.t, func(x *hosttest.Host) { x.Clock = y.clock }, hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open(filepath.Join(h.dir, "store"), pebblestore.Options{NoSync: true})
		if err != nil {
			y.t.Fatal(err)
		}
		return s
	}), hosttest.WithHandlers(func(x *host.Host) {
		host.HandleStep(x, "ship", func(ctx context.Context, done string) (string, error) { return y.ship(ctx, h, done), nil })
	}))
	return h
}

// ship is the step at the end of each leg. It returns the number of the leg.
func (y *longYear) ship(ctx context.Context, h *yearHost, done string) string {
	s := host.StepInfo(ctx)
	y.mu.Lock()
	defer y.mu.Unlock()
	r := y.runs[s.RunID]
	if r == nil || r.at != h {
		y.t.Errorf("%s acts on host %s", s.RunID, h.name)
		return ""
	}
	if key, ok := r.keys[s.Name]; !ok {
		r.pass(y.t, s.Name)
	} else if key != s.IdempotencyKey {
		y.t.Errorf("%s, step %s: the idempotency keys %s and %s", r.id, s.Name, key, s.IdempotencyKey)
	}
	r.keys[s.Name] = s.IdempotencyKey
	r.acts[s.Name] = append(r.acts[s.Name], y.clock.Now())
	if want := r.done[:len(r.done)-1]; done != want {
		y.t.Errorf("%s, step %s: it has done %q, want %q", r.id, s.Name, done, want)
	}
	return r.done[len(r.done)-1:]
}

// pass takes a run to the end of its leg, under its version.
func (r *traveller) pass(t *testing.T, step string) {
	if want := fmt.Sprintf("ship-%d.%d", r.round, r.leg); step != want {
		t.Errorf("%s makes step %s, want %s", r.id, step, want)
	}
	switch {
	case r.leg == 0 && r.version >= vMarked:
		r.done += "S"
	case r.leg == 1 && r.version >= vAudited:
		r.done += "A"
		r.audited = true
	}
	r.done += fmt.Sprint(r.leg)
	r.leg++
	if r.leg == len(r.plan.Rounds[r.round]) && r.round+1 < len(r.plan.Rounds) {
		r.round, r.leg, r.audited = r.round+1, 0, false
	}
}

// ended reports whether the run has reached its end.
func (r *traveller) ended() bool {
	return r.round+1 == len(r.plan.Rounds) && r.leg == len(r.plan.Rounds[r.round])
}

// fits reports whether the run can continue under a version: it cannot if it has passed the place of an added step
// without making it.
func (r *traveller) fits(version uint32) bool {
	return version < vAudited || r.leg < 2 || r.audited
}

// try repeats an operation until it succeeds, across crashes. After a crash, the operation may turn out to have
// succeeded before.
func (y *longYear) try(h *yearHost, do func() error, done ...error) {
	y.t.Helper()
	for again := false; ; again = true {
		err := do()
		switch {
		case h.Crashed():
			y.revive(h)
			continue
		case err == nil, again && slices.ContainsFunc(done, func(d error) bool { return errors.Is(err, d) }):
		default:
			y.t.Fatal(err)
		}
		return
	}
}

func (y *longYear) get(h *yearHost, id string) (r host.Run) {
	y.t.Helper()
	y.try(h, func() (err error) {
		r, err = h.Get(ctx, id)
		return err
	})
	return r
}

func (y *longYear) revive(h *yearHost) {
	h.crashes++
	h.Reopen()
}

// mayCrash makes a host crash at one of its next commits, with a probability of one in n.
func (y *longYear) mayCrash(h *yearHost, in, commits int) {
	if y.rng.IntN(in) == 0 {
		h.CrashAt(y.rng.IntN(commits), y.rng.IntN(2) == 0)
	}
}

// settle lets both hosts do everything that is due, and returns the next deadline.
func (y *longYear) settle() (next time.Time, ok bool) {
	for _, h := range []*yearHost{y.a, y.b} {
		at, due := h.Settle()
		for h.Crashed() {
			y.revive(h)
			at, due = h.Settle()
		}
		if due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// pass lets the year pass, from deadline to deadline and event to event, until none is left.
func (y *longYear) pass() {
	slices.SortStableFunc(y.events, func(a, b yearEvent) int { return a.at.Compare(b.at) })
	for {
		y.mayCrash(y.a, 40, 15)
		y.mayCrash(y.b, 80, 15)
		next, ok := y.settle()
		switch {
		case len(y.events) > 0 && (!ok || y.events[0].at.Before(next)):
			e := y.events[0]
			y.events = y.events[1:]
			if e.at.After(y.clock.Now()) {
				y.clock.Set(e.at)
			}
			e.do()
			y.settle()
			busy, err := collect(y.b.Runs(ctx, host.Query{Workflow: "rental", Status: host.Sleeping}))
			if do(y.t, err); len(busy) > slotsOnB {
				y.t.Errorf("%d rentals go on on host b, the limit is %d", len(busy), slotsOnB)
			}
		case !ok:
			return
		default:
			y.clock.Set(next)
		}
		if y.t.Failed() {
			y.t.FailNow()
		}
	}
}

// start starts runs of a workflow.
func (y *longYear) start(workflow string, n int, legs, least, most int) {
	for range n {
		r := &traveller{id: fmt.Sprint(workflow, len(y.ids)), workflow: workflow, at: y.a, version: y.newest,
			keys: map[string]string{}, acts: map[string][]time.Time{}, left: map[*yearHost]time.Time{}}
		r.plan.Customer = y.rng.IntN(customers)
		for range 1 + y.rng.IntN(2) {
			var round []int
			for range 2 + y.rng.IntN(legs-1) {
				round = append(round, 24*least+y.rng.IntN(24*(most-least)))
			}
			r.plan.Rounds = append(r.plan.Rounds, round)
		}
		y.mu.Lock()
		y.runs[r.id] = r
		y.mu.Unlock()
		y.ids = append(y.ids, r.id)
		y.mayCrash(y.a, 20, 4)
		y.try(y.a, func() error {
			_, err := y.a.Start(ctx, workflow, r.plan, host.WithRunID(r.id))
			return err
		})
	}
}

// upgrade uploads a version on both hosts and migrates all runs that fit.
func (y *longYear) upgrade(version uint32) {
	for _, h := range []*yearHost{y.a, y.b} {
		y.settle()
		if version != y.newest || version == vFirst {
			for _, w := range []string{"plan", "rental"} {
				if version > vFirst {
					y.check(h, w, version)
				}
			}
			v, err := h.Upload(ctx, "", y.code[version], host.AllowStep("ship"))
			if do(y.t, err); v.Number != version {
				y.t.Fatalf("version %d on host %s, want %d", v.Number, h.name, version)
			}
		}
		if version > vFirst {
			y.migrate(h, "plan", version)
			y.migrate(h, "rental", version)
		}
	}
	y.newest = version
	y.settle()
}

// check replays all live runs of a workflow against a version. This changes nothing, and the verdict on each run is
// right.
func (y *longYear) check(h *yearHost, workflow string, version uint32) {
	found := map[string]host.RunCheck{}
	commits := h.Commits()
	sum, err := h.Workflows().Check(ctx, workflow, y.code[version], host.CheckOptions{Each: reports(found)})
	if err != nil {
		y.t.Fatal(err)
	}
	if n := h.Commits() - commits; n != 0 {
		y.t.Errorf("a check has made %d commits", n)
	}
	y.judge(h, workflow, version, found, sum, host.CheckCompatible)
}

// judge compares the reports on the live runs of a workflow with what the test knows.
func (y *longYear) judge(h *yearHost, workflow string, version uint32, found map[string]host.RunCheck, sum host.CheckSummary,
	fit host.CheckOutcome) {
	live, diverging := 0, 0
	for _, id := range y.ids {
		r := y.runs[id]
		if r.workflow != workflow || r.ended() || r.at != h {
			continue
		}
		live++
		want := fit
		if !r.fits(version) {
			want = host.CheckDiverges
			diverging++
		}
		c, ok := found[id]
		if right := c.Outcome == want || want == host.CheckMigrated && c.Outcome == host.CheckUnchanged; !ok || !right ||
			(c.Reason != "") != (want == host.CheckDiverges) {
			y.t.Errorf("host %s, %s against version %d: %+v, want %s; it has done %q, and is %+v", h.name, id, version, c, want, r.done,
				y.get(h, id))
		}
	}
	if int(sum.Runs) != live || len(found) != live || int(sum.Diverging) != diverging || sum.NotChecked != 0 {
		y.t.Errorf("host %s, version %d: %+v, want %d runs, %d of them diverging", h.name, version, sum, live, diverging)
	}
	y.refused += diverging
}

// migrate migrates the runs that fit, across crashes. The others stay as they are.
func (y *longYear) migrate(h *yearHost, workflow string, version uint32) {
	found := map[string]host.RunCheck{}
	var sum host.CheckSummary
	y.mayCrash(h, 2, 1+*upgradeRuns/2)
	y.try(h, func() (err error) {
		sum, err = h.Workflows().Migrate(ctx, workflow, host.MigrateOptions{To: version, Each: reports(found)})
		return err
	})
	for id, c := range found { // a run that was set aside here is not listed
		if r := y.runs[id]; c.Outcome == host.CheckMigrated || c.Outcome == host.CheckUnchanged {
			r.version = version
		}
	}
	y.judge(h, workflow, version, found, sum, host.CheckMigrated)
	for _, id := range y.ids {
		if r := y.runs[id]; r.workflow == workflow && r.at == h {
			if got := y.get(h, id); got.Version != r.version {
				y.t.Errorf("host %s: %s has version %d, want %d", h.name, id, got.Version, r.version)
			}
		}
	}
}

// move moves sleeping runs to the other host, across crashes of both.
func (y *longYear) move(n int) {
	y.settle()
	for _, i := range y.rng.Perm(len(y.ids)) {
		r := y.runs[y.ids[i]]
		from, to := r.at, y.b
		if from == y.b {
			to = y.a
		}
		left, was := r.left[to]
		if n == 0 || r.ended() || r.workflow == "rental" && from == y.b || was && y.clock.Now().Sub(left) < 31*day ||
			y.get(from, r.id).Status != host.Sleeping {
			continue
		}
		n--
		y.moves++
		if was { // its id is free there again
			y.try(to, func() error {
				_, err := to.Retentions().Sweep(ctx, false)
				return err
			})
		}
		y.moveOne(r, from, to)
	}
	y.settle()
}

func (y *longYear) moveOne(r *traveller, from, to *yearHost) {
	y.begun(r)
	var file bytes.Buffer
	y.mayCrash(from, 3, 2)
	y.try(from, func() error {
		file.Reset()
		return from.Export(ctx, r.id, &file, host.ExportOptions{Move: true})
	})
	r.at = to
	y.mayCrash(to, 3, 2)
	y.try(to, func() error {
		_, err := to.Import(ctx, bytes.NewReader(file.Bytes()), host.ImportOptions{Adopt: true})
		return err
	})
	y.mayCrash(from, 3, 4)
	y.try(from, func() error { return from.Terminate(ctx, r.id) }, host.ErrTerminal)
	from.Settle()
	y.try(from, func() error { return from.Delete(ctx, r.id) }, host.ErrNotFound)
	r.left[from] = y.clock.Now()
	if from == y.a {
		r.freed = y.clock.Now()
	}
}

// begun returns when a run began its first iteration. Its host reports this during that iteration. Afterwards it is
// computed from the first step, unless a move or a host that was down delayed that step.
func (y *longYear) begun(r *traveller) time.Time {
	first := r.acts["ship-0.0"]
	switch {
	case !r.began.IsZero():
	case len(first) > 0:
		return first[0].Add(-time.Duration(r.plan.Rounds[0][0]) * time.Hour)
	default:
		r.began = y.get(r.at, r.id).Started
	}
	return r.began
}

// replace replaces a host by one with a restored backup of its data.
func (y *longYear) replace(h *yearHost) {
	h.Stop()
	place, dir := y.t.TempDir(), filepath.Join(y.t.TempDir(), "restored")
	_, err := host.BackupDir(ctx, host.Config{Dir: h.dir, Clock: y.clock}, place, host.BackupOptions{})
	do(y.t, err)
	_, err = host.Restore(ctx, place, dir, host.RestoreOptions{})
	do(y.t, err)
	h.dir = dir
	h.Reopen()
}

// stopBoth stops both hosts for a while.
func (y *longYear) stopBoth(d time.Duration) {
	for _, r := range y.runs {
		y.begun(r)
	}
	y.a.Kill()
	y.b.Kill()
	y.down = [2]time.Time{y.clock.Now(), y.clock.Now().Add(d)}
	y.clock.Advance(d)
	y.a.Reopen()
	y.b.Reopen()
	y.settle()
}

// late returns when an event that is due at an instant happens: later, if both hosts are down then.
func (y *longYear) late(due time.Time) time.Time {
	if due.After(y.down[0]) && due.Before(y.down[1]) {
		return y.down[1]
	}
	return due
}
