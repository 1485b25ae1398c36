package guest

import (
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
)

// freeze puts a guest that has given up its stack into the warm cache.
func (a *Activation) freeze(inst engine.Instance) {
	f, ok := inst.Freeze()
	if !ok {
		return
	}
	g := &snapshot{Frozen: f, Machine: a.Machine.Freeze(), Lines: a.Lines.Frozen(), Stdin: a.stdin, Read: a.read, Passed: a.passed}
	a.r.warm.Put(a.r.cfg.Clock.Now().UnixMilli(), a.key, g, g.Bytes(), a.lease.WakesMs, a.lease.Queues)
}

// thaw restores a frozen guest in the instance, if there is one and the journal begins as it did then. The caller has
// the run.
func (a *Activation) thaw(inst engine.Instance, cfg replay.Config) bool {
	if !a.mod.CanThaw {
		return false
	}
	a.passed = newPassed(&cfg.Started)
	g, ok := a.r.warm.Take(a.key)
	if !ok || !g.Passed.Begins(&cfg.Started, a.lease.Entries()) || !inst.Thaw(g.Frozen) {
		return false
	}
	a.Machine, a.Lines, a.stdin, a.read, a.passed = g.Machine.Thaw(cfg), g.Lines, g.Stdin, g.Read, g.Passed
	return true
}
