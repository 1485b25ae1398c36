package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// floodSpace is the namespace of the flooding tenant.
const floodSpace = "flood"

// floodGuest is a workflow that uses as much as it can get, with its number of runs.
type floodGuest struct {
	runs  int
	write func(s small)
}

// floodGuests are the flooding workflows. Their runs go on until the host stops. Two more floods come from callers:
// "starts" starts runs, "uploads" uploads modules, both without end.
var floodGuests = map[string]floodGuest{
	"compute": {100, func(s small) { // a third of a second or more, again and again
		s.rounds(50, func() {
			s.repeat(300_000_000, func() {})
			s.nap()
		})
	}},
	"logs": {100, func(s small) { // more than the host keeps of an activation
		line := strings.Repeat("x", 1024)
		s.rounds(200, func() {
			s.repeat(100, func() { s.I32(abi.LogInfo).Text(line).Call(abi.FnLog).Drop() })
			s.nap()
		})
	}},
	"handles": {20, func(s small) {
		s.rounds(1, func() {
			s.repeat(abi.MaxUnresolvedHandles/2, func() {
				s.name()
				s.I64(86_400_000).Call(abi.FnSleepStart).Drop()
			})
			s.nap()
		})
	}},
	"children": {1, func(s small) { // each child starts a child, too
		s.repeat(abi.MaxLiveChildren, func() {
			s.name()
			s.Text("children").I32(0).I32(0).Text(`{"on_end":"abandon"}`).Call(abi.FnChildStart).Drop()
		})
		s.name()
		s.I64(86_400_000).Call(abi.FnSleep).Drop()
	}},
	"starts":  {0, func(small) {}},
	"uploads": {0, func(small) {}},
}

// floodKinds returns the names of the floods.
func floodKinds() []string {
	return []string{"starts", "compute", "logs", "handles", "children", "uploads"}
}

// repeat emits a loop that runs body n times.
func (s small) repeat(n int64, body func()) {
	s.I64(n).Set(first)
	s.times(first, body)
}

// rounds emits a loop that runs body n times and then continues as new, which keeps the journal short.
func (s small) rounds(n int64, body func()) {
	s.I64(n).Set(second)
	s.times(second, body)
	s.I32(0).I32(0).I32(0).I32(0).Call(abi.FnContinueAsNew)
}

// nap emits the shortest sleep.
func (s small) nap() {
	s.name()
	s.I64(1).Call(abi.FnSleep).Drop()
}

// floodStarters is the number of callers that start runs without end.
const floodStarters = 32

// floodUploaders is the number of callers that upload modules without end. The branches and locals of each module are
// near the limits of inspection, so that its compiler is busy for a second or more.
const (
	floodUploaders    = 8
	floodBombLocals   = 100
	floodBombBranches = 6000
)

// flood is a running flood.
type flood struct {
	started, refused atomic.Int64
	uploaded         atomic.Int64
	stop             context.CancelCauseFunc
	cause            func() error // why the callers ended
	callers          sync.WaitGroup
}

// flood starts the floods of the given kinds.
func (s *session) flood(kinds []string, quota host.Quota) (*flood, error) {
	ctx, stop := context.WithCancelCause(s.ctx)
	f := &flood{stop: stop, cause: func() error { return context.Cause(ctx) }}
	ns, err := s.h.Namespace(ctx, floodSpace)
	if err != nil {
		return f, err
	}
	if err := s.h.SetQuota(ctx, floodSpace, quota); quota != (host.Quota{}) && err != nil {
		return f, err
	}
	for _, kind := range kinds {
		g := floodGuests[kind]
		m := small{wasmgen.New(int(locals))}
		g.write(m)
		if _, err := ns.Upload(ctx, kind, m.I32(0).Export(abi.ExportRun).Bytes()); err != nil {
			return f, fmt.Errorf("flood of %s: %w", kind, err)
		}
		begun := make(chan struct{})
		f.callers.Go(func() {
			defer close(begun)
			f.begin(ctx, ns, kind, g.runs)
		})
		if quota == (host.Quota{}) { // without a quota, it may never be done
			<-begun
		}
	}
	if slices.Contains(kinds, "starts") {
		for range floodStarters {
			f.callers.Go(func() { f.start(ctx, ns) })
		}
	}
	if slices.Contains(kinds, "uploads") {
		for i := range floodUploaders {
			f.callers.Go(func() { f.upload(ctx, ns, i) })
		}
	}
	return f, nil
}

// begin starts runs of a workflow, each as soon as the quota admits it.
func (f *flood) begin(ctx context.Context, ns *host.Namespace, workflow string, runs int) {
	for i := 0; i < runs && ctx.Err() == nil; {
		switch _, err := ns.StartRaw(ctx, workflow, nil, host.WithRunID(runID(workflow, i))); {
		case err == nil:
			f.started.Add(1)
			i++
		case errors.Is(err, host.ErrBusy) && !errors.Is(err, host.ErrDiskFull):
			f.refused.Add(1)
		default:
			f.stop(fmt.Errorf("flood of %s: %w", workflow, err)) // the first cause wins
		}
	}
}

// upload uploads modules that are slow to compile, without end. All differ, so that the cache of compiled modules does
// not help.
func (f *flood) upload(ctx context.Context, ns *host.Namespace, uploader int) {
	for n := 0; ctx.Err() == nil; n++ {
		m := wasmgen.New(floodBombLocals)
		m.Op(bytes.Repeat([]byte{0x41, 0, 0x04, 0x40, 0x0b}, floodBombBranches)...) // if (0) {}
		wasm := m.I32(int32(n)).Drop().I32(int32(uploader)).Drop().I32(0).Export(abi.ExportRun).Bytes()
		_, err := ns.Upload(ctx, fmt.Sprint("uploads", uploader), wasm)
		switch {
		case err == nil:
			f.uploaded.Add(1)
		case ctx.Err() == nil:
			f.refused.Add(1)
		}
	}
}

// start starts runs until ctx is done.
func (f *flood) start(ctx context.Context, ns *host.Namespace) {
	for ctx.Err() == nil {
		switch _, err := ns.StartRaw(ctx, "starts", nil); {
		case err == nil:
			f.started.Add(1)
		case ctx.Err() == nil:
			f.refused.Add(1)
		}
	}
}

// end stops the callers and waits for them. It returns an error if they failed before. Runs go on until the host
// stops.
func (f *flood) end() error {
	f.stop(nil)
	f.callers.Wait()
	if cause := f.cause(); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
