package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/host/internal/check"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// ArchiveSuffix is the file name suffix of exported runs. Workflows.CheckArchives and hosttest.Golden look for it.
const ArchiveSuffix = ".wfrun"

// ExportOptions says which parts of a run are exported. The zero value exports all of it.
type ExportOptions struct {
	// WithoutModule omits the module, most of a small archive. Archives for tests are replayed against other modules
	// anyway.
	WithoutModule bool
	// NewestIteration omits the journals of the iterations before the newest one, except for the entry with which the
	// run was started, as if its Retention had removed them. It is for moving runs that continue as new without end,
	// if all their journals are too large to import.
	NewestIteration bool
	// Move sets the run aside before it is written, so that it can continue elsewhere: see ImportOptions.Adopt. From
	// then on the run makes no step, takes no signal, and wakes at no deadline here. That is durable before the first
	// byte is written, and stays so even if the export fails; a further export, with Move or without, is the same
	// moved run. TakeBack resumes it here, if it was adopted nowhere. Attempts of steps in flight are abandoned, and
	// repeated where the run continues; to wait for them, pause the run first. A run that has ended is exported as it
	// is.
	Move bool
}

// Export writes a run as one file, as it is durable now: its state, its module, the journals of all iterations with
// all payloads, its log and its output. The run may be live; it is only read, and continues. Exports at the same
// point have the same bytes. The file is not encrypted, even if the store is: it shows everything that the run was
// given and did. It does not contain the run's children, its parent, or signals that have not reached it yet.
//
// Nothing is written before the state and the module are read. So ErrNotFound, ErrBusy if too many exports are in
// progress, and with Move, ErrConflict for a run that waits for a child, whose end another run waits for, or that is
// a copy, come before the first byte. After another error, the written bytes are no archive: ErrNotFound if the run
// was deleted meanwhile, ErrBusy if w took less than 256 KiB a second while another export needed its permit. An
// export holds some megabytes in memory, however long the journals are.
func (s *scope) Export(ctx context.Context, id string, w io.Writer, opts ExportOptions) error {
	key, err := s.key(ctx, id)
	if err != nil {
		return translate(err)
	}
	out, end, err := s.h.exports.begin(ctx, key.Namespace, w)
	if err != nil {
		return err
	}
	defer end()
	if opts.Move {
		if err := s.setAside(ctx, key); err != nil {
			return translate(err)
		}
	}
	err = out.failed(archive.Write(out.ctx, out, s.h.store, key, !opts.WithoutModule, opts.NewestIteration))
	if errors.Is(err, store.ErrTooLarge) {
		return &joined{err, ErrLimit}
	}
	return translate(err)
}

// moveBytes is the length of the id of a move, long enough to be unique.
const moveBytes = 16

// setAside sets a run aside for a move.
func (s *nsRef) setAside(ctx context.Context, key store.RunKey) error {
	st, err := s.h.rt.Runs.Durable(ctx, key)
	if err != nil {
		return err
	}
	if st.Parent != "" && !st.Status.Terminal() {
		parent, err := s.h.rt.Runs.Durable(ctx, store.RunKey{Namespace: key.Namespace, ID: st.Parent})
		if err == nil && !parent.Status.Terminal() {
			return &joined{fmt.Errorf("run %q is a child of run %q, which lives and would not be told of its end", key.ID, st.Parent),
				ErrConflict}
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	id := make([]byte, moveBytes)
	s.h.cfg.Random(id)
	_, err = s.h.rt.Runs.Change(ctx, key, run.Amend{Make: run.Move(hex.EncodeToString(id))})
	return err
}

// Archive is an exported run in memory. It is immutable and safe for concurrent use.
type Archive struct{ run *archive.Run }

// ReadArchive reads the output of Export to its end and checks it: the checksums, that all records decode, that the
// journals have no gaps and keep the rules of journals, and that state, journal and module are of one run. ErrInvalid
// if the file is not sound, ErrVersion if a newer release has written it. The archive does not prove its origin: its
// author may have written any journal that keeps the rules.
func ReadArchive(r io.Reader) (*Archive, error) {
	run, err := archive.Read(r)
	if err != nil {
		return nil, translate(err)
	}
	return &Archive{run}, nil
}

// Run returns the state of the run at its export.
func (a *Archive) Run() Run { return (&Host{}).runOf(a.run.State) }

// Journal returns the entries of the newest iteration. They must not be changed.
func (a *Archive) Journal() []Entry { return a.run.Entries }

// Module returns the module of the run, nil if it was omitted. It must not be changed.
func (a *Archive) Module() []byte { return a.run.Module }

// ReplayOptions are the options of a replay. The zero value replays strictly, with the module in the archive.
type ReplayOptions struct {
	// Module is another module for the replay. As with Check, lengths of sleeps and options of steps may differ then,
	// and so may the inputs of steps that have ended. Default: the module of the archive, strictly.
	Module []byte
	// Strict requires that Module does exactly what the journal records, down to inputs and lengths.
	Strict bool
	// Trace, if set, is called with each call of the workflow, in order.
	Trace func(TraceCall)
}

// TraceCall is a call of a workflow in a replay, and its answer. Payloads are cut after 1,024 bytes.
type TraceCall struct {
	Entry uint64 `json:"entry"` // the newest entry that the workflow had reached when it got its answer
	Call  string `json:"call"`  // the function
	Asked string `json:"asked,omitempty"`
	Got   string `json:"got,omitempty"`
}

// ReplayArchive replays an exported run in memory and reports the outcome. Nothing is stored, and the run need not
// exist on this host. Only the newest iteration is replayed. A run that diverges is no error: the report says where,
// as Replay does. ErrRejected if the module cannot be a workflow, ErrInvalid if it does not list the run's workflow.
func (h *Host) ReplayArchive(ctx context.Context, a *Archive, opts ReplayOptions) (RunCheck, error) {
	wasm := opts.Module
	if wasm == nil {
		wasm, opts.Strict = a.run.Module, true
	}
	if wasm == nil {
		return RunCheck{}, &joined{fmt.Errorf("the archive of run %q was written without its module: give one to replay it against",
			a.run.State.Run.ID), ErrInvalid}
	}
	workflow := a.run.State.Workflow
	mod, err := h.candidate(ctx, &workflow, wasm)
	if err != nil {
		return RunCheck{}, err
	}
	defer mod.Close()
	return h.replayArchive(ctx, a, mod, opts)
}

func (h *Host) replayArchive(ctx context.Context, a *Archive, mod *module.Module, opts ReplayOptions) (RunCheck, error) {
	var trace func(check.Call)
	if opts.Trace != nil {
		trace = func(c check.Call) {
			opts.Trace(TraceCall{Entry: uint64(c.Seq), Call: c.Name, Asked: c.Asked, Got: c.Got})
		}
	}
	checker, key := h.rt.Checks.Over(recorded(*a), trace), a.run.State.Run
	r := check.Result{Outcome: check.Compatible, State: a.run.State}
	var err error
	if opts.Strict {
		err = checker.VerifyWith(ctx, key, mod)
		if m, ok := errors.AsType[*replay.Mismatch](err); ok {
			r.Outcome, r.Seq, r.Want, r.Got, err = check.Diverges, m.Seq, m.Want, m.Got, nil
		}
		if err != nil && ctx.Err() == nil { // the workflow crashed
			r.Outcome, r.Reason, err = check.NotChecked, err.Error(), nil
		}
	} else {
		r, err = checker.Run(ctx, key, mod, (&CheckOptions{CPU: DefaultCheckCPU}).fuel())
	}
	if err != nil {
		return RunCheck{}, translate(err)
	}
	c := reportOf(key, &r)
	if c.Outcome == CheckDiverges {
		c.Reason = (&replay.Mismatch{Seq: r.Seq, Want: r.Want, Got: r.Got}).Error()
	}
	return c, nil
}

// recorded serves an archive as the source of its run.
type recorded struct{ run *archive.Run }

// State returns the state of the run.
func (r recorded) State(context.Context, store.RunKey) (store.RunState, error) {
	return r.run.State, nil
}

// Run returns the state of the run, and its journal.
func (r recorded) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return r.run.State, r.run.Entries, nil
}

// CheckArchives is Check for exported runs, live and ended: the files of a folder whose names end with ArchiveSuffix.
// Runs of other workflows are skipped. A file that is not sound is reported as not checked, under its name. The
// workflow may be empty if the module lists exactly one, and needs no version on this host. ErrNotFound if the folder
// has no such file.
func (s Workflows) CheckArchives(ctx context.Context, dir, workflow string, wasm []byte, opts CheckOptions) (sum CheckSummary,
	err error) {
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
	sum.Workflow, sum.Module = workflow, digestOf(wasm).String()
	p := pass{s: s.nsRef, workflow: workflow, opts: opts, sum: &sum}
	p.runs, err = archivesOf(dir, workflow)
	if err != nil {
		return sum, err
	}
	p.do = func(ctx context.Context, path store.RunKey) (RunCheck, error) {
		a, err := openArchive(path.ID)
		if err != nil {
			return RunCheck{RunID: filepath.Base(path.ID), Outcome: CheckNotChecked, Reason: err.Error()}, nil
		}
		r, err := s.h.rt.Checks.Over(recorded(*a), nil).Run(ctx, a.run.State.Run, mod, opts.fuel())
		return reportOf(a.run.State.Run, &r), err
	}
	return sum, p.all(ctx)
}

// archivesOf lists the files of a folder that hold runs of a workflow or cannot be read.
func archivesOf(dir, workflow string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	of, found := []string{}, false
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		if filepath.Ext(path) != ArchiveSuffix {
			continue
		}
		found = true
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		name, err := archive.Workflow(f)
		if errors.Join(err, f.Close()) != nil || name == workflow {
			of = append(of, path)
		}
	}
	if !found {
		return nil, &joined{fmt.Errorf("%s holds no file whose name ends with %s", dir, ArchiveSuffix), ErrNotFound}
	}
	return of, nil
}

func openArchive(path string) (a *Archive, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return ReadArchive(f)
}
