package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

const (
	// MaxImportBytes bounds the memory for the journals, the log and the output of a run while it is imported. A
	// journal has at most half as much; all of them are one commit.
	MaxImportBytes = 2 * abi.MaxJournalBytes
	// MaxArchiveBytes bounds an imported file: MaxImportBytes, the module, and the overhead of a tar.
	MaxArchiveBytes = MaxImportBytes + abi.MaxModuleBytes + (16 << 20)
	// maxImportReplay bounds the replay of an imported run that will continue here. The longest journals take some
	// seconds on a busy machine.
	maxImportReplay = 2 * time.Minute
)

// ImportOptions are the options of an import. The zero value makes a copy of the run, for inspection.
type ImportOptions struct {
	// Adopt continues the run here, from the state of its export. A live run must have been exported with
	// ExportOptions.Move.
	Adopt bool
	// Paused adopts the run as a paused run, so that its version can be given grants before it continues.
	Paused bool
	// Force adopts a live run that was not moved. The run then acts twice, unless the original is gone.
	Force bool
}

// Import stores a run from a file of Export. The run keeps its id. ErrConflict if another run has that id here, or if
// a deleted run still holds it: for 30 days, or as long as Retention.KeepIDsFor says. A repeated import of the same
// archive with the same option Adopt returns the existing run, with Existed set, also after it has continued or
// ended. Durable on return, in one commit; after an error no part of the run is stored.
//
// Without Adopt the run is a copy, with Aside "copy": it can be listed, read, replayed, restarted, exported and
// deleted, and nothing else: it takes no signal and makes no progress. No retention deletes it.
//
// With Adopt the run continues: deadlines that have passed are due at once. Unless it is stuck, it is replayed
// strictly before it is stored; ErrMismatch if it does not do what its journal records. Steps that were in progress
// are repeated, under the same idempotency keys; at-most-once steps fail as after a crash. The run claims the tokens
// of its hooks; ErrConflict if another run holds one. Its parent, or the schedule that started it, is told of its end
// if it exists here. Retention counts an ended run from its import. ErrConflict for a live run that was not moved,
// and for a run that waits for a child.
//
// The run needs its module. If the workflow has no version of the module here, Import makes one without grants, and
// one for each other workflow of the module. Starts use these versions only by number. ErrInvalid if the file is no
// sound archive, or if neither the file nor the host has the module; ErrLimit beyond MaxImportBytes; ErrBusy beyond a
// quota, if another import into the namespace is in progress, or 64 into other namespaces; ErrDiskFull, ErrRejected,
// ErrVersion and ErrCopy as in Start and Upload. A file of more than 256 KiB is spooled to Config.Dir during the
// import.
func (s *scope) Import(ctx context.Context, r io.Reader, opts ImportOptions) (Run, error) {
	began := clock.System().Now()
	run, err := s.imported(ctx, r, opts, &began)
	return run, s.slowly(ctx, began, err)
}

// imported is Import without the delay of refusals. It sets read to the instant at which the file was read: a slow
// sender must not count as a delay.
func (s *nsRef) imported(ctx context.Context, r io.Reader, opts ImportOptions, read *time.Time) (Run, error) {
	if !opts.Adopt && (opts.Paused || opts.Force) {
		return Run{}, &joined{errors.New("paused and force are for a run that is adopted"), ErrInvalid}
	}
	if err := s.h.refuseCopy(); err != nil {
		return Run{}, translate(err)
	}
	end, err := s.h.importing.begin(s.title())
	if err != nil {
		return Run{}, err
	}
	defer end()
	file, err := s.h.spool(io.LimitReader(r, MaxArchiveBytes))
	if err != nil {
		return Run{}, translate(err)
	}
	defer file.Close()
	leave, err := s.h.waitForMemory(ctx)
	if err != nil {
		return Run{}, err
	}
	defer leave()
	whole, err := archive.ReadWhole(file, MaxImportBytes)
	if errors.Is(err, store.ErrTooLarge) {
		err = &joined{err, ErrLimit}
	}
	if err != nil {
		return Run{}, translate(err)
	}
	*read = clock.System().Now()
	st, existed, err := s.imports(ctx, whole, &opts)
	if err != nil {
		return Run{}, translate(err)
	}
	run := s.h.runOf(st)
	run.Existed = existed
	return run, nil
}

func (s *nsRef) imports(ctx context.Context, w *archive.Whole, opts *ImportOptions) (st store.RunState, existed bool, err error) {
	now := s.h.cfg.Clock.Now().UnixMilli()
	i := &run.Import{ID: w.ID, UnixMs: now, Copy: !opts.Adopt, Paused: opts.Paused, LogLines: w.State.LogLines,
		Kept: w.State.Kept, StartedAt: w.State.StartedUnixMs, Rested: max(w.State.Suspension.Seq, w.State.Rested)}
	if w.State.Status == store.Stuck {
		i.Stuck = w.State.Reason
	}
	n := run.NewRun{Workflow: w.State.Workflow, Import: i, Conflict: run.ConflictFail}
	n.Key, err = s.key(ctx, w.State.Run.ID)
	fresh := errors.Is(err, store.ErrNotFound) // the namespace does not exist
	switch {
	case fresh:
		err = nil
	case err != nil:
	default: // imports that change nothing, or are refused, compile and store no module
		n.IDsMs, err = s.h.keepsIDsMs(ctx, n.Key.Namespace)
		if err != nil {
			return st, false, err
		}
		if there, failed := s.h.store.State(ctx, n.Key); failed == nil && !run.Forgotten(&there, &n, now) {
			st, _, err = s.h.rt.Runs.Start(ctx, n, func() {})
			return st, true, err
		}
	}
	if err == nil {
		i.Entries = w.Entries
		err = s.mayCome(ctx, n.Key, fresh, i, opts)
	}
	if err == nil {
		err = s.h.roomOnDisk(int(w.State.JournalBytes))
	}
	if err == nil && w.Module != nil {
		err = s.roomForModule(ctx, w.Module)
	}
	if err != nil {
		return st, false, err
	}
	description, err := s.proven(ctx, w, opts)
	if err != nil {
		return st, false, err
	}
	ns, err := s.id(ctx, true)
	if err != nil {
		return st, false, err
	}
	n.Key = store.RunKey{Namespace: ns, ID: w.State.Run.ID}
	leave, err := s.h.admitStart(ctx, n.Key, run.ConflictFail)
	if err != nil {
		return st, false, err
	}
	v, free, err := s.versionFor(ctx, ns, w, description)
	if err != nil {
		leave()
		return st, false, err
	}
	n.Version, n.Module = v.Number, v.Module
	i.Earlier, i.Logs, i.Output = w.Earlier, w.Logs, w.Output
	return s.goesOn(ctx, n, !w.State.Status.Terminal(), func() { free(); leave() })
}

// goesOn stores an imported run. It calls free as soon as the version may be released, also after an error.
func (s *nsRef) goesOn(ctx context.Context, n run.NewRun, live bool, free func()) (st store.RunState, existed bool,
	err error) {
	if live && !n.Import.Copy { // check again: time has passed during the replay
		one := s.h.importing.acting.of(n.Key.ID)
		one.Lock()
		defer one.Unlock()
		if err := s.elsewhere(ctx, n.Key.ID, n.Import.Incarnation(), n.Import.ID); err != nil {
			free()
			return st, false, err
		}
	}
	st, created, err := s.h.rt.Runs.Start(ctx, n, free)
	return st, !created, err
}

// mayCome returns why a run cannot be imported in its state, into an existing namespace or a fresh one.
func (s *nsRef) mayCome(ctx context.Context, key store.RunKey, fresh bool, i *run.Import, opts *ImportOptions) error {
	j, err := i.Read()
	if err != nil {
		return err
	}
	if err := run.CheckImported(j); err != nil {
		return &joined{fmt.Errorf("run %q is not imported: %w", key.ID, err), ErrInvalid}
	}
	live := j.Ended() == store.KindInvalid
	if !opts.Adopt || !live && j.Ended() != store.KindFailed { // a failed run may be retried
		return nil
	}
	if live && j.Aside() != store.AsideMoved && !opts.Force {
		return &joined{fmt.Errorf("run %q lives, and would act twice: export it with --move, which sets it aside where it was; or "+
			"adopt it with --force if the other one is gone", key.ID), ErrConflict}
	}
	if err := run.InTheWay(j); err != nil {
		return err
	}
	if live {
		if err := s.elsewhere(ctx, key.ID, j.Started().Incarnation, i.ID); err != nil {
			return err
		}
	}
	for _, h := range j.Hooks() {
		if fresh {
			break
		}
		holder, held, err := s.h.store.Hook(ctx, key.Namespace, h.Token)
		if err != nil {
			return err
		}
		if held && !h.Withdrawn && !h.Refused {
			return &joined{fmt.Errorf("run %q cannot have the token of its hook %q here, which run %q holds", key.ID, h.Name,
				holder.Run.ID), ErrConflict}
		}
	}
	return nil
}

// proven compiles the run's module and returns its description. It also replays a run that will continue.
func (s *nsRef) proven(ctx context.Context, w *archive.Whole, opts *ImportOptions) ([]byte, error) {
	key, workflow := w.State.Run, w.State.Workflow
	if w.Module == nil {
		wasm, err := s.h.store.Modules().Get(ctx, w.State.Module)
		if errors.Is(err, store.ErrNotFound) {
			return nil, &joined{fmt.Errorf("the archive of run %q was written without its module %s, which is not here: upload it, or "+
				"export the run with it", key.ID, w.State.Module), ErrInvalid}
		}
		if err != nil {
			return nil, err
		}
		w.Module = wasm
	}
	mod, description, err := s.prepared(ctx, &workflow, w.Module)
	if err != nil {
		return nil, err
	}
	defer mod.Close()
	if !opts.Adopt || w.State.Status == store.Stuck {
		return description, nil
	}
	replaying, cancel := context.WithTimeout(ctx, maxImportReplay)
	defer cancel()
	err = s.h.rt.Checks.Over(recorded{&w.Run}, nil).VerifyWith(replaying, key, mod)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if replaying.Err() != nil {
		return nil, &joined{fmt.Errorf("run %q is not adopted: its replay takes longer than %v", key.ID, maxImportReplay), ErrLimit}
	}
	if m, ok := errors.AsType[*replay.Mismatch](err); ok {
		return nil, &joined{fmt.Errorf("run %q is not adopted: %w", key.ID, m), ErrMismatch}
	}
	if err != nil {
		return nil, &joined{fmt.Errorf("run %q is not adopted, its replay failed: %w", key.ID, err), ErrInvalid}
	}
	return description, nil
}

// versionFor returns a version of the workflow with the run's module, and holds it until free is called: the version
// with the run's number if it has the module, else the newest that has it. If there is none, it makes one without
// grants, and one for each other workflow of the module that has none.
func (s *nsRef) versionFor(ctx context.Context, ns store.NamespaceID, w *archive.Whole, description []byte) (v store.Version,
	free func(), err error) {
	m, digest, now := s.h.store.Modules(), w.State.Module, s.h.cfg.Clock.Now().UnixMilli()
	listed, err := listedBy(description)
	if err != nil {
		return v, nil, err
	}
	if len(listed) == 0 {
		listed = []string{w.State.Workflow}
	}
	for range uploadAttempts {
		free = s.h.rt.Versions.LockDeletions()
		var missing []store.VersionSpec
		for _, name := range listed { // its children may run the other workflows
			found, err := versionOfModule(ctx, m, ns, name, digest, w.State.Version)
			if err != nil {
				free()
				return v, nil, err
			}
			if found.Number == 0 {
				missing = append(missing, store.VersionSpec{Namespace: ns, Workflow: name, Module: digest, CreatedUnixMs: now,
					Imported: true})
			} else if name == w.State.Workflow {
				v = found
			}
		}
		if v.Number != 0 {
			return v, free, nil
		}
		free() // a deletion of a version would wait while this is held
		if err := s.roomForVersions(ctx, ns, missing); err != nil {
			return v, nil, err
		}
		_, err = m.Put(ctx, w.Module, store.ModuleInfo{Size: int64(len(w.Module)), StoredUnixMs: now,
			DescriptionJSON: description})
		if err == nil {
			_, err = m.AddVersions(ctx, missing)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				s.h.discard(ctx, digest)
			}
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) { // deleted in between
			return v, nil, err
		}
	}
	return v, nil, fmt.Errorf("module %s: %w", digest, store.ErrNotFound)
}

// versionOfModule returns a version of a workflow that has a module: the version of the given number if it has the
// module, else the newest that has it. Its number is 0 if there is none.
func versionOfModule(ctx context.Context, m store.ModuleStore, ns store.NamespaceID, workflow string, module store.Digest,
	number uint32) (v store.Version, err error) {
	if number != 0 {
		v, err = m.Version(ctx, ns, workflow, number)
		if err == nil && v.Module == module {
			return v, nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Version{}, err
		}
	}
	v, err = m.Newest(ctx, ns, workflow, module)
	if errors.Is(err, store.ErrNotFound) {
		return store.Version{}, nil
	}
	return v, err
}
