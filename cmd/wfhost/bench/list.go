package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// List measures lists of runs on the store alone, without a host.
type List struct {
	Dir   string `help:"Folder for the data meanwhile: its disk is measured. Default: that of temporary files." type:"path"`
	N     int    `name:"n" help:"How many runs the store has." default:"100000" placeholder:"COUNT"`
	Pages int    `help:"How many pages of each list." default:"200" placeholder:"COUNT"`
	Limit int    `help:"How many runs a page has." default:"100" placeholder:"COUNT"`
	Churn int    `help:"How many runs have gone to work and back before. Default: a tenth of them, at most 100000." default:"-1"`

	CPUProfile string `name:"cpu-profile" help:"CPU profile of the lists, for go tool pprof." type:"path" placeholder:"FILE"`
}

const (
	// fillCommit is the number of runs per commit while the store is filled: the maximum of a commit.
	fillCommit = store.MaxCommitRecords
	// maxPages bounds the samples of each list.
	maxPages = 1_000_000
	// maxChurn is more than one memtable of Pebble holds of the tombstones and records of the churn.
	maxChurn = 100_000
	// rareRuns is the number of runs that are stuck, belong to the workflow "rare" and have a rare attribute: a few
	// pages.
	rareRuns = 500
	// working is the number of runs in progress while lists are measured.
	working = 50
	// workflows and customers are the numbers of workflows and customers. Their runs are mixed.
	workflows, customers = 10, 1000
)

// Run runs the measurement.
func (b *List) Run(env *Env) (err error) {
	if b.Churn < 0 {
		b.Churn = min(b.N/10, maxChurn)
	}
	if err := errors.Join(between("n", b.N, 1, maxRuns), between("pages", b.Pages, 1, maxPages),
		between("limit", b.Limit, 1, store.MaxPage), between("churn", b.Churn, 0, maxRuns)); err != nil {
		return err
	}
	dir, remove, err := (&Common{Dir: b.Dir}).folder()
	if err != nil {
		return err
	}
	defer remove()
	r := newReport("list", "")
	r.notef("%d runs, whose ids are in no order, in a store without a host: half of them completed, 4 in 10 sleep, some wait, "+
		"failed or were cancelled; %d are stuck. %d have gone to work and back to rest, %d are at work. Each figure is of %d pages of "+
		"%d runs, after a tenth as many as a warm-up. Files may be in the memory of the system.", b.N, min(rareRuns, b.N),
		b.Churn, min(working, b.N), b.Pages, b.Limit)
	f := &filled{List: b, env: env, dir: filepath.Join(dir, "data"), rng: rand.New(rand.NewPCG(1, 2))}
	profile, err := newCPUProfile(b.CPUProfile)
	if err != nil {
		return err
	}
	if err := errors.Join(f.run(r, profile), profile.stop()); err != nil {
		return err
	}
	return env.Show(r)
}

// filled is a store with runs.
type filled struct {
	*List
	env   *Env
	dir   string
	rng   *rand.Rand
	s     *pebblestore.Store
	parts [store.Partitions]store.Partition
}

func (f *filled) run(r *Report, profile *cpuProfile) (err error) {
	if err := f.open(true); err != nil {
		return err
	}
	begun := time.Now()
	if err := errors.Join(f.fill(), f.s.Close()); err != nil {
		return err
	}
	elapsed := time.Since(begun)
	settle()
	begun = time.Now()
	if err := f.open(false); err != nil {
		return err
	}
	opened := time.Since(begun)
	defer func() { err = errors.Join(err, f.s.Close()) }()
	if err := f.churn(); err != nil {
		return err
	}
	disk, err := diskBytes(f.dir)
	if err != nil {
		return err
	}
	r.number("runs", "runs in the store", count, float64(f.N))
	r.number("filled", "runs filled in, not synced, in a second", perSecond, float64(f.N)/elapsed.Seconds())
	r.number("open", "store open, its 64 partitions acquired", millis, float64(opened)/float64(time.Millisecond))
	r.number("disk", "data on disk, logs included", size, disk)
	r.number("diskPerRun", "data on disk per run", size, disk/float64(f.N))
	cpu0, hasCPU := cpuTime()
	profile.start()
	pages := 0
	for _, l := range f.lists() {
		if err := f.measure(r, l); err != nil {
			return err
		}
		pages += f.Pages
	}
	cpu := math.NaN()
	if now, ok := cpuTime(); hasCPU && ok {
		cpu = float64(now-cpu0) / float64(time.Microsecond) / float64(pages)
	}
	r.number("cpuPerPage", "CPU time per page of all kinds", micros, cpu)
	rss, _ := memory()
	r.number("rss", "memory at the end (RSS)", size, rss)
	return nil
}

func (f *filled) open(noSync bool) (err error) {
	f.s, err = pebblestore.Open(f.dir, pebblestore.Options{NoSync: noSync})
	if err != nil {
		return err
	}
	for p := range store.PartitionID(store.Partitions) {
		f.parts[p], err = f.s.Acquire(f.env.Ctx, p, "bench", 0)
		if err != nil {
			return errors.Join(err, f.s.Close())
		}
	}
	return nil
}

// mix hashes a number to 64 bits (SplitMix64), so that values derived from it are in no order.
func mix(i int) uint64 {
	x := uint64(i)*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// created is the creation time of the first run. The others follow at intervals of a millisecond.
const created = 1_700_000_000_000

// state returns the state of the run with number i in the order of creation.
func (f *filled) state(i int) store.RunState {
	x := mix(i)
	st := store.RunState{Run: store.RunKey{ID: fmt.Sprintf("order-%016x", x)}, Workflow: fmt.Sprint("workflow-", x%workflows),
		Version: 1, Status: store.Sleeping, WakeUnixMs: store.NoWake,
		CreatedUnixMs: created + int64(i), StartedUnixMs: created + int64(i),
		Attributes: []store.Attribute{{Key: "customer", Value: fmt.Sprint("c-", mix(int(x))%customers)}}}
	x /= workflows
	if rare := f.N / min(rareRuns, f.N); i%rare == rare-1 {
		st.Workflow, st.Status = "rare", store.Stuck
		st.Attributes = append(st.Attributes, store.Attribute{Key: "rare", Value: "yes"})
		return st
	}
	switch n := x % 100; {
	case n < 50:
		st.Status = store.Completed
	case n < 90: // they sleep until up to some years after the last run was created
		st.WakeUnixMs = created + int64(f.N) + int64(mix(i+f.N)%(1<<37))
	case n < 97:
		st.Status = store.Waiting
	case n < 99:
		st.Status = store.Failed
	default:
		st.Status = store.Cancelled
	}
	if st.Status.Terminal() {
		st.EndedUnixMs = created + int64(i) + 1000
	}
	return st
}

// fill creates the runs.
func (f *filled) fill() error {
	f.env.Say(fmt.Sprintf("filling in %d runs", f.N))
	return f.each(f.N, func(i int) []store.RunCommit {
		st := f.state(i)
		return []store.RunCommit{{Run: st.Run, Create: true, State: st}}
	})
}

// churn makes sleeping runs work and sleep again.
func (f *filled) churn() error {
	f.env.Say(fmt.Sprintf("%d runs go to work and back", f.Churn))
	done, last := 0, 0
	to := func(status store.Status, n int) func(i int) []store.RunCommit {
		done = 0
		return func(i int) []store.RunCommit {
			st := f.state(i)
			if st.Status != store.Sleeping || done == n {
				return nil
			}
			done++
			last = i
			st.Status = status
			return []store.RunCommit{{Run: st.Run, State: st}}
		}
	}
	if f.Churn > 0 {
		if err := f.each(f.N, to(store.Running, f.Churn)); err != nil {
			return err
		}
		if err := f.each(last+1, to(store.Sleeping, f.Churn)); err != nil {
			return err
		}
	}
	return f.each(f.N, to(store.Running, working))
}

// each calls commits for the numbers below n and commits the results.
func (f *filled) each(n int, commits func(i int) []store.RunCommit) error {
	var runs [store.Partitions][]store.RunCommit
	pending := 0
	flush := func() error {
		var groups []store.Group
		for p := range runs {
			if len(runs[p]) > 0 {
				groups = append(groups, store.Group{Partition: f.parts[p], Runs: runs[p]})
			}
		}
		if err := errors.Join(f.s.Commit(f.env.Ctx, groups), f.env.Ctx.Err()); err != nil {
			return err
		}
		for p := range runs {
			runs[p] = runs[p][:0]
		}
		pending = 0
		return nil
	}
	for i := range n {
		for _, c := range commits(i) {
			p := c.Run.Partition()
			runs[p] = append(runs[p], c)
			pending++
		}
		if pending == fillCommit {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// kindOfList is a list to measure.
type kindOfList struct {
	name, label string
	page        func(ctx context.Context) (runs int, err error)
	short       bool // its pages may be shorter than the limit, so their length is a figure
}

// lists returns the lists to measure.
func (f *filled) lists() []kindOfList {
	query := func(name, label string, q store.Query, where func(q *store.Query)) kindOfList {
		q.Limit = f.Limit
		return kindOfList{name: name, label: label, page: func(ctx context.Context) (int, error) {
			q := q
			if where != nil {
				where(&q)
			}
			page, err := f.s.List(ctx, q)
			return len(page.Runs), err
		}, short: q.Workflow != "" && len(q.Statuses) > 0}
	}
	deep := func(q *store.Query) { q.After = &store.Position{UnixMs: created + f.rng.Int64N(int64(f.N)), ID: "p"} }
	status := func(s ...store.Status) store.Query { return store.Query{Statuses: s} }
	timers := func(name, label string, after func() *store.Position) kindOfList {
		return kindOfList{name: name, label: label, page: func(ctx context.Context) (int, error) {
			page, err := f.s.Timers(ctx, store.TimerQuery{UntilMs: math.MaxInt64, Limit: f.Limit, After: after()})
			return len(page.Runs), err
		}}
	}
	return []kindOfList{
		query("newest", "newest runs", store.Query{}, nil),
		query("deep", "a page somewhere in between", store.Query{}, deep),
		query("oldest", "oldest runs", store.Query{Oldest: true}, nil),
		query("sleeping", "runs that sleep, somewhere", status(store.Sleeping), deep),
		query("waiting", "runs that wait, somewhere", status(store.Waiting), deep),
		query("stuck", "stuck runs", status(store.Stuck), nil),
		query("running", "runs at work", status(store.Running), nil),
		query("ended", "runs that failed or were cancelled, somewhere", status(store.Failed, store.Cancelled, store.Terminated), deep),
		query("workflow", "runs of a workflow, somewhere", store.Query{Workflow: "workflow-3"}, deep),
		query("rareWorkflow", "runs of a rare workflow", store.Query{Workflow: "rare"}, nil),
		query("attribute", "runs of a customer", store.Query{Attributes: []store.Attribute{{Key: "customer", Value: "c-7"}}}, nil),
		query("rareAttribute", "runs with a rare attribute",
			store.Query{Attributes: []store.Attribute{{Key: "rare", Value: "yes"}}}, nil),
		query("both", "runs of a workflow that failed, somewhere",
			store.Query{Workflow: "workflow-3", Statuses: []store.Status{store.Failed}}, deep),
		timers("timers", "the next timers", func() *store.Position { return nil }),
		timers("deepTimers", "timers, somewhere", func() *store.Position {
			return &store.Position{UnixMs: created + int64(f.N) + f.rng.Int64N(1<<37), ID: "p"}
		}),
		{name: "counts", label: "all counts", page: func(ctx context.Context) (int, error) {
			counts, err := f.s.Counts(ctx, 0)
			return len(counts), err
		}},
	}
}

// measure reads the pages of a list and reports their latencies.
func (f *filled) measure(r *Report, l kindOfList) error {
	f.env.Say(l.label)
	samples := make([]time.Duration, 0, f.Pages)
	runs := 0
	for i := -f.Pages / 10; i < f.Pages; i++ {
		begun := time.Now()
		n, err := l.page(f.env.Ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", l.label, err)
		}
		if i >= 0 {
			samples = append(samples, time.Since(begun))
			runs += n
		}
	}
	r.latency(l.name, l.label, samples)
	if mean := float64(runs) / float64(f.Pages); l.short {
		r.number(l.name+"Runs", "… of which a page has so many", count, mean)
	}
	return nil
}
