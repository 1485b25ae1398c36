package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/wasm/validate"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/seal"
)

// CheckOutcome is the outcome of the check, or the migration, of one run.
type CheckOutcome string

// The outcomes.
const (
	// CheckCompatible: the module makes the calls that the run's journal records.
	CheckCompatible CheckOutcome = "compatible"
	// CheckDiverges: the workflow does not do what the journal records, from RunCheck.Entry on.
	CheckDiverges CheckOutcome = "diverges"
	// CheckNotChecked: the run could not be replayed to its end; RunCheck.Reason says why.
	CheckNotChecked CheckOutcome = "not_checked"
	// CheckMigrated: the run continues under the other version. Only Migrate returns this outcome and CheckUnchanged.
	CheckMigrated CheckOutcome = "migrated"
	// CheckUnchanged: the run already has the version.
	CheckUnchanged CheckOutcome = "unchanged"
)

// RunCheck is the report of one run.
type RunCheck struct {
	RunID     string       `json:"run"`
	Version   uint32       `json:"version,omitempty"` // the version before
	Status    Status       `json:"status,omitempty"`
	Iteration uint32       `json:"iteration,omitempty"`
	Entries   uint64       `json:"entries"` // length of the journal when it was read; the run may have continued since
	Outcome   CheckOutcome `json:"outcome"`
	// Entry is the seq at which the workflow diverges, Journal is the entry there, and Workflow what the workflow
	// did.
	Entry    *uint64 `json:"entry,omitempty"`
	Journal  string  `json:"journal,omitempty"`
	Workflow string  `json:"workflow,omitempty"`
	// Reason is a sentence that says why the outcome is not compatible or migrated.
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"` // remarks on a compatible run, such as changed inputs of steps
}

// CheckSummary counts reports by outcome.
type CheckSummary struct {
	Workflow   string `json:"workflow"`
	Version    uint32 `json:"version,omitempty"` // the version that runs were migrated to
	Module     string `json:"module"`            // SHA-256 in hexadecimal
	Runs       int64  `json:"runs"`
	Compatible int64  `json:"compatible"` // without migrated runs
	Diverging  int64  `json:"diverging"`
	NotChecked int64  `json:"not_checked"`
	Migrated   int64  `json:"migrated,omitempty"`
	Unchanged  int64  `json:"unchanged,omitempty"`
}

// Fits reports whether every run was checked and none diverges.
func (s *CheckSummary) Fits() bool { return s.Diverging+s.NotChecked == 0 }

func (s *CheckSummary) count(c *RunCheck) {
	s.Runs++
	switch c.Outcome {
	case CheckCompatible:
		s.Compatible++
	case CheckDiverges:
		s.Diverging++
	case CheckNotChecked:
		s.NotChecked++
	case CheckMigrated:
		s.Migrated++
	case CheckUnchanged:
		s.Unchanged++
	}
}

const (
	// DefaultCheckCPU is the default of CheckOptions.CPU: as much as a run may compute between two waits.
	DefaultCheckCPU = 10 * time.Second
	// MaxCheckCPU bounds CheckOptions.CPU. A journal of 50,000 entries is replayed in seconds.
	MaxCheckCPU = 10 * time.Minute
	// fuelPerSecond is the fuel for one second of CheckOptions.CPU.
	fuelPerSecond = 1_000_000_000
	// maxChecks and maxOwnChecks bound the concurrent checks and migrations, of all namespaces and of one. Each has a
	// module and some journals in memory, and its duration grows with the number of runs.
	maxChecks    = 8
	maxOwnChecks = 2
	// MaxCheckParallel bounds CheckOptions.Parallel: each replay has a journal in memory, and an instance.
	MaxCheckParallel = 16
)

// CheckOptions are the options of a check. The zero value checks the live runs.
type CheckOptions struct {
	// Ended also checks the runs that have ended within this time. Zero checks live runs only.
	Ended time.Duration
	// CPU roughly bounds what the replay of one run may compute. A run whose replay takes more is not checked. Zero
	// is DefaultCheckCPU; at most MaxCheckCPU.
	CPU time.Duration
	// Parallel is how many runs are replayed at a time. Replays count against Config.MaxInstances. Zero is half of
	// the processors, at least 1; at most MaxCheckParallel.
	Parallel int
	// Each, if set, is called with each report, one call at a time, in no particular order. If it returns an error,
	// the check ends.
	Each func(RunCheck) error
	// Progress, if set, is called before the first run and after each one with the number of runs done and an
	// estimate of the total.
	Progress func(done, total int64)
}

func (o *CheckOptions) check() error {
	if o.Ended < 0 || o.CPU < 0 || o.CPU > MaxCheckCPU || o.Parallel < 0 || o.Parallel > MaxCheckParallel {
		return &joined{fmt.Errorf("a check needs Ended from 0, CPU from 0 to %v and Parallel from 0 to %d, got %v, %v and %d",
			MaxCheckCPU, MaxCheckParallel, o.Ended, o.CPU, o.Parallel), ErrInvalid}
	}
	if o.CPU == 0 {
		o.CPU = DefaultCheckCPU
	}
	if o.Parallel == 0 {
		o.Parallel = max(min(goruntime.GOMAXPROCS(0)/2, MaxCheckParallel), 1)
	}
	return nil
}

func (o *CheckOptions) fuel() int64 { return int64(o.CPU.Seconds() * fuelPerSecond) }

// Check replays the live runs of a workflow against a module, in memory. The module is compiled as for an upload and
// is not stored. Runs are only read, one journal at a time, and continue meanwhile: each report has the length of the
// journal that was replayed.
//
// The module does what a journal records if it makes the same calls in the same order, with the same names. The
// length of a sleep and the options of a step may differ. The input of a step may differ if the step has ended; a
// note says so. At the end of the journal the workflow may wait, make a new call, or return. It must not fail there.
//
// The workflow may be empty if the module lists exactly one. ErrInvalid if the module does not list it, ErrNotFound
// if it has no version, ErrRejected if the module cannot be a workflow, ErrBusy if too many uploads and checks wait.
func (s Workflows) Check(ctx context.Context, workflow string, wasm []byte, opts CheckOptions) (CheckSummary, error) {
	sum := CheckSummary{}
	if err := opts.check(); err != nil {
		return sum, err
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return sum, translate(err)
	}
	end, err := s.h.checks.begin(ns)
	if err != nil {
		return sum, err
	}
	defer end()
	mod, err := s.candidate(ctx, &workflow, wasm)
	if err != nil {
		return sum, err
	}
	defer mod.Close()
	if _, err := s.h.store.Modules().Version(ctx, ns, workflow, 0); err != nil {
		return sum, translate(err)
	}
	sum.Workflow, sum.Module = workflow, digestOf(wasm).String()
	p := pass{s: s.nsRef, ns: ns, workflow: workflow, opts: opts, sum: &sum}
	p.do = func(ctx context.Context, key store.RunKey) (RunCheck, error) {
		r, err := s.h.rt.Checks.Run(ctx, key, mod, opts.fuel())
		return reportOf(key, &r), err
	}
	err = p.all(ctx)
	return sum, err
}

// candidate compiles a module without storing it, and sets the name of the workflow if it is empty.
func (s *nsRef) candidate(ctx context.Context, workflow *string, wasm []byte) (*module.Module, error) {
	mod, _, err := s.prepared(ctx, workflow, wasm)
	return mod, err
}

// prepared is candidate, and also returns the description of the module.
func (s *nsRef) prepared(ctx context.Context, workflow *string, wasm []byte) (*module.Module, []byte, error) {
	if _, err := validate.Scan(wasm); err != nil {
		return nil, nil, translate(err)
	}
	if err := s.h.roomOnDisk(moduleTimes * len(wasm)); err != nil { // for the compiled code
		return nil, nil, err
	}
	mod, description, err := s.h.rt.Versions.Prepare(ctx, wasm)
	if ctx.Err() != nil {
		if err == nil {
			mod.Close()
		}
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, rejected(err)
	}
	c, err := claimOf(ctx, *workflow, nil, description)
	if err == nil && *workflow == "" && len(c.names) > 1 {
		err = &joined{fmt.Errorf("the module lists %d workflows, name the one whose runs are meant: %s", len(c.names), some(c.names)),
			ErrInvalid}
	}
	if err != nil {
		mod.Close()
		return nil, nil, err
	}
	if *workflow == "" {
		*workflow = c.names[0]
	}
	return mod, description, nil
}

// liveStatuses are the statuses of runs that have not ended.
var liveStatuses = []Status{Queued, Running, Sleeping, Waiting, Paused, Stuck}

// pass is a walk over runs: a check or a migration.
type pass struct {
	s        *nsRef
	ns       store.NamespaceID
	workflow string
	runs     []string // only these runs; nil = all
	from     uint32   // only runs of this version; 0 = any
	opts     CheckOptions
	do       func(ctx context.Context, key store.RunKey) (RunCheck, error)

	mu    sync.Mutex // guards the fields below
	sum   *CheckSummary
	about int64
}

// checking counts the checks and migrations in progress.
type checking struct {
	mu  sync.Mutex // guards the fields below
	all int
	by  map[store.NamespaceID]int
}

// begin counts a check until end is called, or returns ErrBusy.
func (c *checking) begin(ns store.NamespaceID) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxChecks || c.by[ns] >= maxOwnChecks {
		return nil, &joined{fmt.Errorf("too many checks and migrations go on, %d of them of this namespace; the limits are "+
			"%d, and %d of one namespace: try again later", c.by[ns], maxChecks, maxOwnChecks), ErrBusy}
	}
	if c.by == nil {
		c.by = map[store.NamespaceID]int{}
	}
	c.all++
	c.by[ns]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		c.by[ns]--
		if c.by[ns] == 0 {
			delete(c.by, ns)
		}
	}, nil
}

// all processes each run. An error ends the walk.
func (p *pass) all(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total, err := p.total(ctx)
	if err != nil {
		return translate(err)
	}
	p.about = total
	p.progress()
	keys := make(chan store.RunKey)
	var wg sync.WaitGroup
	for range p.opts.Parallel {
		wg.Go(func() {
			for key := range keys {
				if err := p.one(ctx, key); err != nil {
					cancel(err)
				}
			}
		})
	}
	for key, err := range p.keys(ctx) {
		if err != nil {
			cancel(err)
			break
		}
		select {
		case keys <- key:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(keys)
	wg.Wait()
	return translate(context.Cause(ctx))
}

// one processes one run and reports the outcome.
func (p *pass) one(ctx context.Context, key store.RunKey) error {
	if ctx.Err() != nil {
		return nil
	}
	c, err := p.do(ctx, key)
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // it ended the walk
	case errors.Is(err, store.ErrNotFound):
		c = RunCheck{RunID: key.ID, Outcome: CheckNotChecked, Reason: "there is no such run"}
	case err != nil:
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.count(&c)
	p.progress()
	if p.opts.Each != nil {
		return p.opts.Each(c)
	}
	return nil
}

func (p *pass) progress() {
	if p.opts.Progress != nil {
		p.opts.Progress(p.sum.Runs, max(p.about, p.sum.Runs))
	}
}

// total estimates the number of runs.
func (p *pass) total(ctx context.Context) (n int64, err error) {
	if p.runs != nil {
		return int64(len(p.runs)), nil
	}
	counts, err := p.s.h.store.Counts(ctx, p.ns)
	for i := range counts {
		switch c := &counts[i]; {
		case c.Workflow != p.workflow || p.from != 0 && c.Version != p.from:
		case p.opts.Ended > 0:
			n += c.Runs.Total()
		default:
			n += c.Runs.Live()
		}
	}
	return n, err
}

// keys yields the keys of the runs.
func (p *pass) keys(ctx context.Context) iter.Seq2[store.RunKey, error] {
	return func(yield func(store.RunKey, error) bool) {
		for _, id := range p.runs {
			if !yield(store.RunKey{Namespace: p.ns, ID: id}, nil) {
				return
			}
		}
		if p.runs != nil {
			return
		}
		q := store.Query{Namespace: p.ns, Workflow: p.workflow, Statuses: liveStatuses, Limit: store.MaxPage, Oldest: true}
		if p.opts.Ended > 0 {
			q.Statuses = nil
		}
		since := p.s.h.cfg.Clock.Now().Add(-p.opts.Ended).UnixMilli()
		for st, err := range store.Runs(ctx, p.s.h.store, q, 0) {
			if err == nil && (st.Status.Terminal() && st.EndedUnixMs < since || p.from != 0 && st.Version != p.from) {
				continue
			}
			if !yield(st.Run, err) || err != nil {
				return
			}
		}
	}
}

// reportOf converts the result of a replay to a report.
func reportOf(key store.RunKey, r *check.Result) RunCheck {
	c := RunCheck{RunID: key.ID, Version: r.State.Version, Status: r.State.Status, Iteration: r.State.Iteration,
		Entries: uint64(r.State.Length), Reason: r.Reason, Notes: r.Notes}
	switch r.Outcome {
	case check.Compatible:
		c.Outcome = CheckCompatible
	case check.NotChecked:
		c.Outcome = CheckNotChecked
	case check.Diverges:
		seq := uint64(r.Seq)
		c.Outcome, c.Entry, c.Journal, c.Workflow = CheckDiverges, &seq, r.Want, r.Got
		c.Reason = fmt.Sprintf("diverges at entry %d: the journal has %s, the workflow did %s", seq, r.Want, r.Got)
	}
	return c
}

// CheckData is Check for a data directory that no host has open, or for a backup, or for the newest backup of a
// place. cfg says how modules are compiled; its Dir and Store are not used. An empty namespace is the default one.
// ErrLocked if a host has the data open: then use Workflows.Check, or CheckData with a backup. ErrKey if the data is
// encrypted and cfg.Codec does not have the key, or is not set.
func CheckData(ctx context.Context, path string, cfg Config, namespace, workflow string, wasm []byte,
	opts CheckOptions) (sum CheckSummary, err error) {
	at, err := locate(ctx, path)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	s, err := pebblestore.Open(at.dir, pebblestore.Options{ReadOnly: true, Logger: cfg.Logger})
	if err != nil {
		return sum, translate(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if cfg.Codec == nil {
		if err := seal.InTheClear(ctx, s); err != nil {
			return sum, translate(err)
		}
	}
	err = withReader(ctx, s, cfg, func(h *Host) error {
		if namespace == "" {
			namespace = store.DefaultNamespace
		}
		n, err := h.Namespace(ctx, namespace)
		if err == nil {
			sum, err = n.Workflows().Check(ctx, workflow, wasm, opts)
		}
		return err
	})
	return sum, err
}

// withReader calls do with a host on a read-only store. The host owns no partitions.
func withReader(ctx context.Context, s store.Store, cfg Config, do func(*Host) error) (err error) {
	cache, err := os.MkdirTemp("", "wfhost-read-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	cfg.Dir, cfg.Store, cfg.Partitions, cfg.SkipSleeps = cache, s, []int{}, false
	h, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return do(h)
}
