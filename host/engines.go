package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// The engines that every program has, both from wazero.
const (
	EngineCompiler    = "compiler"    // compiles modules to machine code; the default, see also Config.Interpreter
	EngineInterpreter = "interpreter" // a hundred times slower where a workflow computes
)

// Engines returns the engine names that VerifyOptions.Engines may have: EngineCompiler, EngineInterpreter, and
// engines that were linked into the program. Package github.com/wfhost/wfhost/host/wasmtime, a module of its own,
// adds "wasmtime".
func Engines() []string {
	return append([]string{EngineCompiler, EngineInterpreter}, engine.LinkedNames()...)
}

// checkEngines returns ErrInvalid if an engine is not available, or is named twice.
func checkEngines(names []string) error {
	for i, name := range names {
		if !slices.Contains(Engines(), name) {
			return fmt.Errorf("%w: this program has the engines %q, got %q", ErrInvalid, Engines(), name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%w: the engine %q is named twice", ErrInvalid, name)
		}
	}
	return nil
}

// newEngine creates the engine of the host. cache is the folder of compiled modules, empty if there is none.
func (h *Host) newEngine(ctx context.Context, cache string) (engine.Engine, error) {
	if m := engine.Linked(h.cfg.engine); m != nil {
		return m(ctx)
	}
	reset, err := wazero.ParseReset(h.cfg.reset)
	if err != nil {
		return nil, err
	}
	build, err := h.cfg.build()
	if err != nil {
		return nil, err
	}
	interpreter := h.cfg.Interpreter && h.cfg.engine == "" || h.cfg.engine == EngineInterpreter
	made := func(ctx context.Context) (engine.Engine, error) {
		return wazero.New(ctx, wazero.Config{CacheDir: cache, Interpreter: interpreter, Reset: reset, PoolBytes: h.cfg.PoolBytes,
			Build: build, CacheBytes: h.cfg.CacheBytes})
	}
	if len(h.cfg.Compiler) > 0 { // not shared between hosts: its locks may belong to the synctest bubble of a test
		return made(ctx)
	}
	key := fmt.Sprintf("%q %v %q %d %d", cache, interpreter, reset, h.cfg.PoolBytes, h.cfg.CacheBytes)
	return engine.Open(ctx, h.cfg.Dir, key, made)
}

// verifier replays the runs of a store on one or more engines.
type verifier struct {
	opts    VerifyOptions
	report  *VerifyReport
	engines []*replayer // all other engines are compared with the first
}

// replayer is a host that replays runs on one engine.
type replayer struct {
	name string
	h    *Host
	rep  *guest.ReplayReport // the report of the replay in progress
}

// newVerifier opens a host for each engine, on the same store, with separate folders below dir. The caller closes it.
func newVerifier(ctx context.Context, dir string, cfg Config, opts VerifyOptions, report *VerifyReport) (*verifier, error) {
	v := &verifier{opts: opts, report: report}
	names := opts.Engines
	if len(names) == 0 || opts.NoReplay {
		names = []string{""} // the engine of cfg
	} else {
		report.Engines = names
	}
	for i, name := range names {
		if err := v.open(ctx, filepath.Join(dir, strconv.Itoa(i)), name, cfg); err != nil {
			return nil, errors.Join(err, v.close())
		}
	}
	return v, nil
}

// open adds a host with the named engine.
func (v *verifier) open(ctx context.Context, dir, name string, cfg Config) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	r := &replayer{name: name}
	cfg.Dir, cfg.engine = dir, name
	cfg.replayed = r.replayed
	var err error
	r.h, err = Open(ctx, cfg)
	if err != nil {
		return err
	}
	v.engines = append(v.engines, r)
	return nil
}

// replayed returns the report that the next replay fills in.
func (r *replayer) replayed() *guest.ReplayReport {
	if r.rep == nil {
		return &guest.ReplayReport{}
	}
	return r.rep
}

func (v *verifier) close() (err error) {
	for _, r := range v.engines {
		err = errors.Join(err, r.h.Close())
	}
	return err
}

// add adds a problem of a run to the report.
func (v *verifier) add(kind string, run store.RunKey, text string) {
	v.report.Add(VerifyProblem{Kind: kind, Partition: int(run.Partition()), Namespace: run.Namespace, Run: run.ID, Text: text})
}

// run decodes a run if it may be encrypted, and replays it on each engine.
func (v *verifier) run(ctx context.Context, run store.RunKey) error {
	first := v.engines[0]
	if first.h.cfg.Codec != nil {
		if sound, err := first.h.checkSealed(ctx, run, v.report); err != nil || !sound {
			return err
		}
	}
	if v.opts.NoReplay {
		return nil
	}
	want, err := first.replay(ctx, run, false)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	v.report.Replayed++
	if err != nil {
		v.add("replay", run, err.Error())
	}
	uncompared := int64(0)
	for _, other := range v.engines[1:] {
		got, _ := other.replay(ctx, run, false) // the error is in Err
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case incomparable(want.Err) || incomparable(got.Err):
			uncompared = 1
			continue
		case same(want, got):
			continue
		}
		a, _ := first.replay(ctx, run, true)
		b, _ := other.replay(ctx, run, true)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v.add("engine", run, difference(first.name, other.name, a, b))
	}
	v.report.Uncompared += uncompared
	return nil
}

// replay replays a run on one engine and returns its report; trace also records the memory at each wait.
func (r *replayer) replay(ctx context.Context, run store.RunKey, trace bool) (*guest.ReplayReport, error) {
	r.rep = &guest.ReplayReport{Trace: trace}
	err := r.h.rt.Checks.Verify(ctx, run)
	if r.rep.Err == nil { // the module may have failed to compile
		r.rep.Err = err
	}
	return r.rep, err
}

// same reports whether two replays had the same result.
func same(a, b *guest.ReplayReport) bool {
	return a.At == b.At && a.Memory == b.Memory && string(a.Result) == string(b.Result) && says(a) == says(b)
}

// incomparable reports whether a replay ended for a reason outside the workflow: the depth of nested calls depends on
// the engine, and the duration of a replay on the machine.
func incomparable(err error) bool {
	trap, ok := errors.AsType[*engine.Trap](err)
	return ok && trap.Kind == engine.TrapStack || errors.Is(err, guest.ErrSlow)
}

// says describes how a replay ended, without the stack of a trap, since the names in the stack depend on the engine.
func says(r *guest.ReplayReport) string {
	switch {
	case r.Err == nil:
		return "it returned"
	case errors.Is(r.Err, replay.ErrSuspend):
		return "it waits"
	}
	return r.Err.Error()
}

// difference describes the first difference between two replays that are not the same.
func difference(first, other string, a, b *guest.ReplayReport) string {
	for i := range min(len(a.Waits), len(b.Waits)) {
		switch x, y := a.Waits[i], b.Waits[i]; {
		case x.At != y.At:
			return fmt.Sprintf("the engines differ at entry %d: wait %d of the workflow is behind entry %d with %s, and behind "+
				"entry %d with %s", min(x.At, y.At)+1, i+1, x.At, first, y.At, other)
		case x.Memory != y.Memory:
			return fmt.Sprintf("the engines differ at entry %d: where the workflow waits behind it, its memory has the SHA-256 %x with "+
				"%s, and %x with %s", x.At, x.Memory, first, y.Memory, other)
		}
	}
	at := min(a.At, b.At)
	if says(a) != says(b) || a.At != b.At {
		return fmt.Sprintf("the engines differ behind entry %d: with %s the workflow came to entry %d: %s; with %s to entry %d: %s",
			at, first, a.At, says(a), other, b.At, says(b))
	}
	if string(a.Result) != string(b.Result) {
		return fmt.Sprintf("the engines differ behind entry %d: the result of the workflow has %d bytes with %s, and other %d with %s",
			at, len(a.Result), first, len(b.Result), other)
	}
	return fmt.Sprintf("the engines differ behind entry %d: the memory at the end has the SHA-256 %x with %s, and %x with %s", at,
		a.Memory, first, b.Memory, other)
}
