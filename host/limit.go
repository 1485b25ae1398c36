package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/gate"
	"github.com/wfhost/wfhost/host/internal/limit"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/schedule"
	"github.com/wfhost/wfhost/host/internal/wake"
	"github.com/wfhost/wfhost/store"
)

const (
	// MaxLimitRules is how many limits a workflow may have.
	MaxLimitRules = limit.MaxRules
	// MaxPriority is the greatest priority of a run, and its negative the least one.
	MaxPriority = limit.MaxPriority
	// MaxPlace is how many runs are counted at most to find the place of one.
	MaxPlace = limit.MaxPlace
)

// Limits limits the runs of a workflow: how many of them are in progress at a time, and how many begin within a window.
// Runs beyond that wait for a slot. A run holds its slot from its admission to its end, also while it sleeps, is paused
// or stuck.
type Limits struct {
	Workflow string `json:"workflow"`
	// Concurrency are limits of how many runs hold a slot at a time: "5" of the workflow, or "5 per input.customer" of
	// those with the same value at that place of their input, a key. 1 to 1,000,000.
	Concurrency []string `json:"concurrency,omitempty"`
	// Rate are limits of how many runs are admitted within any window of a length: "100/1m", or "100/1m per input.tenant". 1 to
	// 10,000, within 1 ms to 366 days.
	Rate []string `json:"rate,omitempty"`
}

// LimitsInfo is the limits of a workflow, and how many runs they are about.
type LimitsInfo struct {
	Limits
	Holding int64 `json:"holding"` // runs that hold a slot
	Waiting int64 `json:"waiting"` // runs that wait for one
}

// Place is where a run stands that waits for a slot.
type Place struct {
	// Place is its place among the runs with the same keys, from 1; MaxPlace + 1 stands for all behind MaxPlace others.
	Place int `json:"place"`
	// Same is how many runs with the same keys wait, and Waiting how many of the workflow do.
	Same    int64 `json:"same"`
	Waiting int64 `json:"waiting"`
	// Limit is the limit that lets no other run with its keys begin; empty if one is about to begin.
	Limit string `json:"limit,omitempty"`
}

// rules returns the limits for the store, or ErrInvalid.
func (l *Limits) rules() (rules limit.Rules, err error) {
	for _, x := range []struct {
		texts []string
		parse func(string) (limit.Rule, error)
	}{{l.Concurrency, limit.ParseConcurrency}, {l.Rate, limit.ParseRate}} {
		for _, text := range x.texts {
			r, err := x.parse(text)
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
		}
	}
	return rules, rules.Check()
}

// Check returns ErrInvalid for limits that cannot be, as SetLimits does.
func (l *Limits) Check() error {
	_, err := l.rules()
	return translate(err)
}

// limitsOf shows the limits of a workflow.
func limitsOf(workflow string, rules limit.Rules) Limits {
	l := Limits{Workflow: workflow}
	for _, r := range rules {
		if r.WindowMs > 0 {
			l.Rate = append(l.Rate, r.String())
		} else {
			l.Concurrency = append(l.Concurrency, r.String())
		}
	}
	return l
}

// WithPriority says which of the runs that wait for a slot begins first: one of higher priority before others with the
// same keys, and mostly before those with other keys, -MaxPriority to MaxPriority. Default: 0. It has no effect without
// limits.
func WithPriority(p int) StartOption {
	return func(s *start) {
		if err := limit.CheckPriority(p); err != nil {
			s.err = errors.Join(s.err, translate(err))
		}
		s.priority = p
	}
}

// SetLimits sets the limits of a workflow, in place of those that it had. The workflow need not exist. Durable on
// return; then it holds for the runs that wait, too. Runs that hold a slot continue, however many they are. Runs that
// were started while the workflow had no limits hold none. SetLimits returns ErrInvalid for limits that say nothing,
// and ErrLimit if the store has too many.
func (s *scope) SetLimits(ctx context.Context, l Limits) (LimitsInfo, error) {
	rules, err := l.rules()
	if err == nil && len(rules) == 0 {
		err = abi.Errorf(abi.InvalidArgument, "the limits of workflow %q limit nothing: give a concurrency or a rate; to remove them, "+
			"delete them", l.Workflow)
	}
	if err != nil {
		return LimitsInfo{}, translate(err)
	}
	if err := s.setLimits(ctx, l.Workflow, rules); err != nil {
		return LimitsInfo{}, err
	}
	return s.GetLimits(ctx, l.Workflow)
}

func (s *scope) setLimits(ctx context.Context, workflow string, rules limit.Rules) error {
	if err := abi.CheckWorkflow(workflow); err != nil {
		return translate(err)
	}
	if err := s.h.refuseCopy(); err != nil {
		return translate(err)
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return translate(err)
	}
	var id store.Incarnation
	s.h.cfg.Random(id[:])
	err = s.h.gate.Set(ctx, store.Limits{Namespace: ns, Workflow: workflow, Data: rules.Encode()}, id)
	if errors.Is(err, store.ErrTooLarge) {
		return &joined{err, ErrLimit}
	}
	return translate(err)
}

// DeleteLimits removes the limits of a workflow. All runs that wait begin. Durable on return. ErrNotFound if there are none.
func (s *scope) DeleteLimits(ctx context.Context, workflow string) error {
	if _, err := s.GetLimits(ctx, workflow); err != nil {
		return err
	}
	return s.setLimits(ctx, workflow, nil)
}

// GetLimits returns the limits of a workflow. ErrNotFound if there are none.
func (s *scope) GetLimits(ctx context.Context, workflow string) (LimitsInfo, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return LimitsInfo{}, translate(err)
	}
	rules, err := s.h.gate.Rules(ctx, ns, workflow)
	if err == nil && len(rules) == 0 {
		err = fmt.Errorf("limits of workflow %q: %w", workflow, store.ErrNotFound)
	}
	if err != nil {
		return LimitsInfo{}, translate(err)
	}
	return s.limitsInfo(ctx, ns, workflow, rules)
}

func (s *scope) limitsInfo(ctx context.Context, ns store.NamespaceID, workflow string, rules limit.Rules) (LimitsInfo, error) {
	n, err := s.h.gate.Count(ctx, ns, workflow)
	return LimitsInfo{Limits: limitsOf(workflow, rules), Holding: n.Held, Waiting: n.Waiting}, translate(err)
}

// AllLimits returns the limits of the namespace, by workflow.
func (s *scope) AllLimits(ctx context.Context) ([]LimitsInfo, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.store.Limits(ctx, ns)
	if err != nil {
		return nil, translate(err)
	}
	out := []LimitsInfo{}
	for _, l := range list {
		rules, err := limit.Decode(l.Data)
		if err != nil {
			return nil, translate(fmt.Errorf("workflow %q: %w: %w", l.Workflow, store.ErrCorrupt, err))
		}
		info, err := s.limitsInfo(ctx, ns, l.Workflow, rules)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// place fills in where a run stands that waits for a slot.
func (s *scope) place(ctx context.Context, st *store.RunState, r *Run) error {
	if st.Slot != store.SlotAsked || st.Status.Terminal() {
		return nil
	}
	p, ok, err := s.h.gate.Place(ctx, st)
	if ok {
		r.Place = &Place{Place: p.Place, Same: p.Same, Waiting: p.Waiting, Limit: p.Rule}
	}
	return err
}

// keepers is what the runtime tells those that keep schedules and the queues of limits.
type keepers struct {
	*schedule.Keeper
	gate *gate.Keeper
}

// newKeepers makes both.
func (h *Host) newKeepers() *keepers {
	now := func() int64 { return h.cfg.Clock.Now().UnixMilli() }
	h.keeper = schedule.New(schedule.Config{Store: h.store, Logger: h.cfg.Logger, Now: now})
	h.gate = gate.New(gate.Config{Store: h.store, Logger: h.cfg.Logger, Now: now})
	return &keepers{h.keeper, h.gate}
}

// begin tells both their host, once nothing is left of uploads that were cut.
func (h *Host) begin(ctx context.Context) {
	h.discardAll(ctx)
	h.keeper.Begin((*scheduler)(h))
	h.gate.Begin((*gatekeeper)(h))
}

// closeKeepers waits until neither changes anything any more. They ask the runtime for what they do.
func (h *Host) closeKeepers() {
	if h.keeper != nil {
		h.keeper.Close()
		h.gate.Close()
	}
}

// Due has a schedule or a queue looked at.
func (k *keepers) Due(key wake.Key, done func()) {
	if key.Kind == store.WakeLimit {
		k.gate.Due(key.Run, done)
		return
	}
	k.Keeper.Due(key.Run, done)
}

// Limit fills in what holds a new run back.
func (k *keepers) Limit(ctx context.Context, n *run.NewRun) error { return k.gate.Limit(ctx, n) }

// Take takes a command for a queue.
func (k *keepers) Take(ctx context.Context, owned store.Partition, cmd store.Command) error {
	return k.gate.Take(ctx, owned, cmd)
}

// gatekeeper is the host as the queues of its limits see it.
type gatekeeper Host

// Owned returns a partition.
func (h *gatekeeper) Owned(p store.PartitionID) store.Partition { return h.rt.Partitions.Get(p) }

// Arm has a queue looked at when it is due.
func (h *gatekeeper) Arm(queue store.RunKey, wakeMs int64, err error) {
	h.rt.Partitions.Arm(wake.Key{Kind: store.WakeLimit, Run: queue}, wakeMs, err)
}

// Kick has an inbox read.
func (h *gatekeeper) Kick(p store.PartitionID) { h.rt.Partitions.Kick(p) }

// StoreFailed stops the host.
func (h *gatekeeper) StoreFailed(err error) { h.rt.Fail(err) }
