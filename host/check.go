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

// CheckOutcome says what came of the check, or the migration, of one run.
type CheckOutcome string

// The outcomes.
const (
	// CheckCompatible: the module does all that the run's journal records.
	CheckCompatible CheckOutcome = "compatible"
	// CheckDiverges: it does something else, at an entry that is named.
	CheckDiverges CheckOutcome = "diverges"
	// CheckNotChecked: the run could not be replayed to its end, for a reason that is given.
	CheckNotChecked CheckOutcome = "not_checked"
	// CheckMigrated: the run continues under the other version. Only Migrate returns it, and the next one.
	CheckMigrated CheckOutcome = "migrated"
	// CheckUnchanged: the run has the version already.
	CheckUnchanged CheckOutcome = "unchanged"
)

// RunCheck is the report of one run.
type RunCheck struct {
	RunID     string       `json:"run"`
	Version   uint32       `json:"version,omitempty"` // that the run had
	Status    Status       `json:"status,omitempty"`
	Iteration uint32       `json:"iteration,omitempty"`
	Entries   uint64       `json:"entries"` // of the journal, when it was read: the run may have continued since
	Outcome   CheckOutcome `json:"outcome"`
	// Entry is the seq of the entry at which the workflow diverges, Journal what is there, and Workflow what the workflow did.
	Entry    *uint64 `json:"entry,omitempty"`
	Journal  string  `json:"journal,omitempty"`
	Workflow string  `json:"workflow,omitempty"`
	// Reason is a sentence that says why the outcome is not compatible or migrated.
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what is worth knowing of a compatible run, such as changed inputs of steps
}

// CheckSummary counts the reports.
type CheckSummary struct {
	Workflow   string `json:"workflow"`
	Version    uint32 `json:"version,omitempty"` // to which runs were migrated
	Module     string `json:"module"`            // SHA-256 in hexadecimal
	Runs       int64  `json:"runs"`
	Compatible int64  `json:"compatible"` // those that were migrated are not among them
	Diverging  int64  `json:"diverging"`
	NotChecked int64  `json:"not_checked"`
	Migrated   int64  `json:"migrated,omitempty"`
	Unchanged  int64  `json:"unchanged,omitempty"`
}

// Fits reports whether no run diverges, or could not be checked.
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
	// DefaultCheckCPU is what the replay of one run may compute: as much as a run between two waits.
	DefaultCheckCPU = 10 * time.Second
	// MaxCheckCPU bounds CheckOptions.CPU: a journal of 50,000 entries is replayed in seconds.
	MaxCheckCPU = 10 * time.Minute
	// fuelPerSecond is how much fuel is a second of CheckOptions.CPU.
	fuelPerSecond = 1_000_000_000
	// maxChecks and maxOwnChecks bound the checks and migrations at a time, of all namespaces and of one: each has a
	// module and some journals in memory, and takes as long as it has runs.
	maxChecks    = 8
	maxOwnChecks = 2
	// MaxCheckParallel bounds CheckOptions.Parallel: each replay has a journal in memory, and an instance.
	MaxCheckParallel = 16
)

// CheckOptions says how runs are checked. The zero value checks the live runs.
type CheckOptions struct {
	// Ended also checks the runs that have ended within this time. Zero checks none of them.
	Ended time.Duration
	// CPU is what the replay of one run may compute at most, about. A run whose replay
	// takes more is not checked. Zero is DefaultCheckCPU; at most MaxCheckCPU.
	CPU time.Duration
	// Parallel is how many runs are replayed at a time. They take places among the guests that compute, see
	// Config.MaxInstances. Zero is half of the processors, at least 1; at most MaxCheckParallel.
	Parallel int
	// Each, if set, is called with each report, by one goroutine at a time, in no order. An error that it returns ends
	// the check.
	Each func(RunCheck) error
	// Progress, if set, is called before the first run and after each one: how many are done, and about how many there are.
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

// Check replays the live runs of a workflow against a module, in memory. The module is compiled as for an upload and is
// not stored; runs are only read, one journal at a time, and continue meanwhile: each report says at which length a run
// was looked at.
//
// The module does what a journal records if it makes the same calls in the same order, with the same names. The length
// of a sleep and the options of a step may differ; the input of a step may differ where the step has ended, which is a
// note. Where the journal ends the workflow may wait, make a new call, or return. It must not fail there.
//
// The workflow may be empty where the module lists exactly one. ErrInvalid if the module does not list it, ErrNotFound
// if it has no version, ErrRejected if the module cannot be a workflow, ErrBusy if too many uploads and checks wait.
func (s *scope) Check(ctx context.Context, workflow string, wasm []byte, opts CheckOptions) (CheckSummary, error) {
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
	p := pass{s: s, ns: ns, workflow: workflow, opts: opts, sum: &sum}
	p.do = func(ctx context.Context, key store.RunKey) (RunCheck, error) {
		r, err := s.h.rt.Checks.Run(ctx, key, mod, opts.fuel())
		return reportOf(key, &r), err
	}
	err = p.all(ctx)
	return sum, err
}

// candidate compiles a module that is not stored, and completes the name of the workflow.
func (s *scope) candidate(ctx context.Context, workflow *string, wasm []byte) (*module.Module, error) {
	mod, _, err := s.prepared(ctx, workflow, wasm)
	return mod, err
}

// prepared is candidate, and returns the description of the module.
func (s *scope) prepared(ctx context.Context, workflow *string, wasm []byte) (*module.Module, []byte, error) {
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

// liveStatuses are those of runs that have not ended.
var liveStatuses = []Status{Queued, Running, Sleeping, Waiting, Paused, Stuck}

// pass is one walk over runs.
type pass struct {
	s        *scope
	ns       store.NamespaceID
	workflow string
	runs     []string // only these; nil = all
	from     uint32   // only of this version; 0 = any
	opts     CheckOptions
	do       func(ctx context.Context, key store.RunKey) (RunCheck, error)

	mu    sync.Mutex // guards what follows
	sum   *CheckSummary
	about int64
}

// checking counts the checks and migrations in progress.
type checking struct {
	mu  sync.Mutex // guards what follows
	all int
	by  map[store.NamespaceID]int
}

// begin counts one more until end is called, or returns ErrBusy.
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

// all does what the pass is for with each run. An error ends the walk.
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

// one does it with one run, and reports what came of that.
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

// total returns about how many runs there are.
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

// keys walks over the runs.
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

// reportOf says what a replay has shown.
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

// CheckData is Check of a data directory that no host has open, or of a backup, or of the newest backup of a place. cfg
// says how modules are compiled; its Dir and Store are not used. The namespace may be empty for the default one.
// ErrLocked if a host has the data open: check against that, or a backup of it. ErrKey if the data is encrypted and
// cfg.Codec does not have the key, or is not set.
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
			sum, err = n.Check(ctx, workflow, wasm, opts)
		}
		return err
	})
	return sum, err
}

// withReader calls do with a host that has a store which can only be read, and owns nothing.
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
