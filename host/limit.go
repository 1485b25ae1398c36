package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/schedule"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
)

const (
	// MaxLimitRules is how many limits a workflow may have.
	MaxLimitRules = limits.MaxRules
	// MaxPriority is the greatest priority of a run, and -MaxPriority the least.
	MaxPriority = limits.MaxPriority
	// MaxQueuePosition is how many waiting runs are counted at most to find the position of a run.
	MaxQueuePosition = limits.MaxPosition
)

// WorkflowLimit limits the runs of a workflow: how many are in progress at a time, and how many begin within a window.
// Further runs wait for a slot. A run holds its slot from its admission to its end, also while it sleeps, is paused
// or is stuck.
type WorkflowLimit struct {
	Workflow string `json:"workflow"`
	// Concurrency limits how many runs hold a slot at a time: "5" for the workflow, or "5 per input.customer" for the
	// runs with the same key, the value at that place of their input. From 1 to 1,000,000.
	Concurrency []string `json:"concurrency,omitempty"`
	// Rate limits how many runs are admitted within any window of a length: "100/1m", or "100/1m per input.tenant".
	// From 1 to 10,000 runs, within 1 ms to 366 days.
	Rate []string `json:"rate,omitempty"`
}

// WorkflowLimitInfo is the limits of a workflow and the numbers of runs that hold a slot or wait.
type WorkflowLimitInfo struct {
	WorkflowLimit
	Holding int64 `json:"holding"` // runs that hold a slot
	Waiting int64 `json:"waiting"` // runs that wait for a slot
}

// QueuePosition says where a waiting run stands in the queue for a slot.
type QueuePosition struct {
	// Position is its position among the runs with the same keys, from 1; MaxQueuePosition + 1 means that at least
	// MaxQueuePosition runs are ahead.
	Position int `json:"place"`
	// Same is the number of waiting runs with the same keys, and Waiting that of all waiting runs of the workflow.
	Same    int64 `json:"same"`
	Waiting int64 `json:"waiting"`
	// Limit is the limit that blocks runs with these keys; empty if one of them is about to begin.
	Limit string `json:"limit,omitempty"`
}

// rules returns the limits for the store, or ErrInvalid.
func (l *WorkflowLimit) rules() (rules limits.Rules, err error) {
	for _, x := range []struct {
		texts []string
		parse func(string) (limits.Rule, error)
	}{{l.Concurrency, limits.ParseConcurrency}, {l.Rate, limits.ParseRate}} {
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

// Check returns ErrInvalid for invalid limits, as WorkflowLimits.Set does.
func (l *WorkflowLimit) Check() error {
	_, err := l.rules()
	return translate(err)
}

// limitsOf converts the rules of a workflow to a WorkflowLimit.
func limitsOf(workflow string, rules limits.Rules) WorkflowLimit {
	l := WorkflowLimit{Workflow: workflow}
	for _, r := range rules {
		if r.WindowMs > 0 {
			l.Rate = append(l.Rate, r.String())
		} else {
			l.Concurrency = append(l.Concurrency, r.String())
		}
	}
	return l
}

// WithPriority sets the priority of the run in the queue for a slot: -MaxPriority to MaxPriority, default 0. A run of
// higher priority begins before other runs with the same keys, and mostly before runs with other keys. It has no
// effect without limits.
func WithPriority(p int) StartOption {
	return func(s *start) {
		if err := limits.CheckPriority(p); err != nil {
			s.err = errors.Join(s.err, translate(err))
		}
		s.priority = p
	}
}

// Set replaces the limits of a workflow. The workflow need not exist. The limits are durable on return, and
// also apply to runs that wait. Runs that hold a slot continue, even if there are more of them than the new limits
// allow. Runs that were started while the workflow had no limits hold no slot. ErrInvalid if the limits are empty or
// invalid, ErrLimit if the store has too many.
func (s WorkflowLimits) Set(ctx context.Context, l WorkflowLimit) (WorkflowLimitInfo, error) {
	rules, err := l.rules()
	if err == nil && len(rules) == 0 {
		err = abi.Errorf(abi.InvalidArgument, "the limits of workflow %q limit nothing: give a concurrency or a rate; to remove them, "+
			"delete them", l.Workflow)
	}
	if err != nil {
		return WorkflowLimitInfo{}, translate(err)
	}
	if err := s.setLimits(ctx, l.Workflow, rules); err != nil {
		return WorkflowLimitInfo{}, err
	}
	return s.Get(ctx, l.Workflow)
}

func (s *nsRef) setLimits(ctx context.Context, workflow string, rules limits.Rules) error {
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
	err = s.h.workflowLimiter.Set(ctx, store.Limits{Namespace: ns, Workflow: workflow, Data: rules.Encode()}, id)
	if errors.Is(err, store.ErrTooLarge) {
		return &joined{err, ErrLimit}
	}
	return translate(err)
}

// Delete removes the limits of a workflow. All waiting runs begin. Durable on return. ErrNotFound if there are
// none.
func (s WorkflowLimits) Delete(ctx context.Context, workflow string) error {
	if _, err := s.Get(ctx, workflow); err != nil {
		return err
	}
	return s.setLimits(ctx, workflow, nil)
}

// Get returns the limits of a workflow. ErrNotFound if there are none.
func (s WorkflowLimits) Get(ctx context.Context, workflow string) (WorkflowLimitInfo, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return WorkflowLimitInfo{}, translate(err)
	}
	rules, err := s.h.workflowLimiter.Rules(ctx, ns, workflow)
	if err == nil && len(rules) == 0 {
		err = fmt.Errorf("limits of workflow %q: %w", workflow, store.ErrNotFound)
	}
	if err != nil {
		return WorkflowLimitInfo{}, translate(err)
	}
	return s.limitsInfo(ctx, ns, workflow, rules)
}

func (s *nsRef) limitsInfo(ctx context.Context, ns store.NamespaceID, workflow string, rules limits.Rules) (WorkflowLimitInfo,
	error) {
	n, err := s.h.workflowLimiter.Count(ctx, ns, workflow)
	return WorkflowLimitInfo{WorkflowLimit: limitsOf(workflow, rules), Holding: n.Held, Waiting: n.Waiting}, translate(err)
}

// List returns the limits of the namespace, by workflow.
func (s WorkflowLimits) List(ctx context.Context) ([]WorkflowLimitInfo, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.store.Limits(ctx, ns)
	if err != nil {
		return nil, translate(err)
	}
	out := []WorkflowLimitInfo{}
	for _, l := range list {
		rules, err := limits.DecodeRules(l.Data)
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

// setQueuePosition sets r.QueuePosition if the run waits for a slot.
func (s *nsRef) setQueuePosition(ctx context.Context, st *store.RunState, r *Run) error {
	if st.Slot != store.SlotAsked || st.Status.Terminal() {
		return nil
	}
	p, ok, err := s.h.workflowLimiter.Position(ctx, st)
	if ok {
		r.QueuePosition = &QueuePosition{Position: p.Position, Same: p.Same, Waiting: p.Waiting, Limit: p.Rule}
	}
	return err
}

// keepers passes wakes and commands of the runtime to the owners of schedules and of limit queues.
type keepers struct {
	*schedule.Keeper
	workflowLimiter *limits.WorkflowLimiter
}

// newKeepers creates the keepers of schedules and of limit queues.
func (h *Host) newKeepers() *keepers {
	now := func() int64 { return h.cfg.Clock.Now().UnixMilli() }
	h.keeper = schedule.New(schedule.Config{Store: h.store, Logger: h.cfg.Logger, Now: now})
	h.workflowLimiter = limits.NewWorkflowLimiter(limits.WorkflowLimiterConfig{Store: h.store, Logger: h.cfg.Logger, Now: now})
	return &keepers{h.keeper, h.workflowLimiter}
}

// begin removes what interrupted uploads left behind, then starts both keepers.
func (h *Host) begin(ctx context.Context) {
	h.discardAll(ctx)
	h.keeper.Begin((*scheduler)(h))
	h.workflowLimiter.Begin((*limiterHost)(h))
}

// closeKeepers waits until neither keeper changes anything. The keepers call the runtime, so it must still be open.
func (h *Host) closeKeepers() {
	if h.keeper != nil {
		h.keeper.Close()
		h.workflowLimiter.Close()
	}
}

// Due processes a schedule or a queue that is due.
func (k *keepers) Due(key shard.TimerKey, done func()) {
	if key.Kind == store.WakeLimit {
		k.workflowLimiter.Due(key.Run, done)
		return
	}
	k.Keeper.Due(key.Run, done)
}

// Limit sets the limits of a new run.
func (k *keepers) Limit(ctx context.Context, n *run.NewRun) error {
	return k.workflowLimiter.Limit(ctx, n)
}

// Process takes a command for a queue.
func (k *keepers) Process(ctx context.Context, owned store.Partition, cmd store.Command) error {
	return k.workflowLimiter.Process(ctx, owned, cmd)
}

// limiterHost is the host as the limit queues see it.
type limiterHost Host

// Owned returns a partition.
func (h *limiterHost) Owned(p store.PartitionID) store.Partition { return h.rt.Partitions.Get(p) }

// Arm sets the wake of a queue.
func (h *limiterHost) Arm(queue store.RunKey, wakeMs int64, err error) {
	h.rt.Partitions.Arm(shard.TimerKey{Kind: store.WakeLimit, Run: queue}, wakeMs, err)
}

// Kick starts reading the inbox of a partition.
func (h *limiterHost) Kick(p store.PartitionID) { h.rt.Partitions.Kick(p) }

// StoreFailed stops the host.
func (h *limiterHost) StoreFailed(err error) { h.rt.Fail(err) }
