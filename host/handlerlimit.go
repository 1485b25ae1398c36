package host

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/store"
)

// MaxLimitedHandlers is how many handlers of a namespace may have limits.
const MaxLimitedHandlers = limits.MaxHandlers

// HandlerLimit limits the attempts of steps that call a handler, for the runs of a namespace: how many are in flight
// at a time, and how many begin within a window. Further attempts wait, without a goroutine, and before their timeout
// begins. An attempt holds its slot until its handler returns, or, if a worker performs it, until its outcome. A
// sleeping run holds no slot.
type HandlerLimit struct {
	Handler string `json:"handler"` // as AllowStep and HandleStep name it, without "host/"
	// Concurrency and Rate are like those of Limits, with keys from the input of the step.
	Concurrency []string `json:"concurrency,omitempty"`
	Rate        []string `json:"rate,omitempty"`
}

// HandlerLimitInfo is the limits of a handler, and the numbers of attempts of this host that hold a slot or wait.
type HandlerLimitInfo struct {
	HandlerLimit
	Holding int `json:"holding"` // attempts that hold a slot
	Waiting int `json:"waiting"` // attempts that wait for a slot
}

// Set replaces the limits of a handler. The handler need not exist. The limits are durable on return,
// and apply on this host, also to attempts that wait. Other hosts on the same store apply them when they are opened.
// Attempts in flight continue, even if there are more than the new limits allow; attempts that began while the
// handler had no limits hold no slot.
//
// Each host counts concurrency in memory, for the runs that it owns. Attempts in flight when a host dies are repeated
// by the next owner, and wait for a slot again. A rate is durable before an attempt begins, and shared by all hosts
// on a store.
//
// ErrInvalid if the limits are empty or invalid, ErrLimit if MaxLimitedHandlers other handlers have limits.
func (s HandlerLimits) Set(ctx context.Context, l HandlerLimit) (HandlerLimitInfo, error) {
	rules, err := (&WorkflowLimit{Concurrency: l.Concurrency, Rate: l.Rate}).rules()
	if err == nil && len(rules) == 0 {
		err = abi.Errorf(abi.InvalidArgument, "the limits of handler %q limit nothing: give a concurrency or a rate; to remove them, "+
			"delete them", l.Handler)
	}
	if err != nil {
		return HandlerLimitInfo{}, translate(err)
	}
	if err := s.setHandlerLimits(ctx, l.Handler, rules); err != nil {
		return HandlerLimitInfo{}, err
	}
	return s.Get(ctx, l.Handler)
}

func (s *nsRef) setHandlerLimits(ctx context.Context, handler string, rules limits.Rules) error {
	if err := s.h.refuseCopy(); err != nil {
		return translate(err)
	}
	key, err := s.handler(ctx, handler)
	if err != nil {
		return err
	}
	return translate(s.h.handlerLimiter.Set(ctx, key, rules))
}

// handler checks the name of a handler.
func (s *nsRef) handler(ctx context.Context, name string) (limits.HandlerKey, error) {
	err := abi.CheckHandler(abi.HandlerPrefix + name)
	switch rest, prefixed := strings.CutPrefix(name, abi.HandlerPrefix); {
	case name == "":
		err = abi.Errorf(abi.InvalidArgument, "the name of a handler is empty")
	case prefixed:
		err = abi.Errorf(abi.InvalidArgument, "a handler is named without %q: %q, got %q", abi.HandlerPrefix, rest, name)
	}
	if err != nil {
		return limits.HandlerKey{}, translate(err)
	}
	ns, err := s.id(ctx, false)
	return limits.HandlerKey{Namespace: ns, Name: name}, translate(err)
}

// Delete removes the limits of a handler. All waiting attempts begin. Durable on return. ErrNotFound if
// there are none.
func (s HandlerLimits) Delete(ctx context.Context, handler string) error {
	if _, err := s.Get(ctx, handler); err != nil {
		return err
	}
	return s.setHandlerLimits(ctx, handler, nil)
}

// Get returns the limits of a handler. ErrNotFound if there are none.
func (s HandlerLimits) Get(ctx context.Context, handler string) (HandlerLimitInfo, error) {
	if _, err := s.handler(ctx, handler); err != nil {
		return HandlerLimitInfo{}, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return HandlerLimitInfo{}, err
	}
	for _, l := range list {
		if l.Handler == handler {
			return l, nil
		}
	}
	return HandlerLimitInfo{}, translate(fmt.Errorf("limits of handler %q: %w", handler, store.ErrNotFound))
}

// List returns the limits of all handlers of the namespace, sorted by name.
func (s HandlerLimits) List(ctx context.Context) ([]HandlerLimitInfo, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	list, err := s.h.handlerLimiter.All(ctx, ns)
	out := []HandlerLimitInfo{}
	for _, l := range list {
		shown := limitsOf("", l.Rules)
		x := HandlerLimitInfo{HandlerLimit: HandlerLimit{Handler: l.Handler, Concurrency: shown.Concurrency, Rate: shown.Rate}}
		x.Holding, x.Waiting = s.h.handlerLimiter.Count(limits.HandlerKey{Namespace: ns, Name: l.Handler})
		out = append(out, x)
	}
	return out, translate(err)
}

// waits holds what starts and attempts may wait for, except the queues of limits.WorkflowLimiter.
type waits struct {
	handlerLimiter *limits.HandlerLimiter
	windows        *limits.StartWindows
	// scheduling has one semaphore of weight 1 for a namespace, or for several. It is held while a schedule is
	// created in a namespace with a quota of schedules, also during disk I/O.
	scheduling [64]*semaphore.Weighted
}

// newHandlerLimiter creates the limiter of handler attempts.
func (h *Host) newHandlerLimiter() *limits.HandlerLimiter {
	h.windows = limits.NewStartWindows(h.store)
	for i := range h.scheduling {
		h.scheduling[i] = semaphore.NewWeighted(1)
	}
	h.handlerLimiter = limits.NewHandlerLimiter(limits.HandlerLimiterConfig{Store: h.store, Clock: h.cfg.Clock, Logger: h.cfg.Logger,
		Failed: func(err error) { h.rt.Fail(err) }})
	return h.handlerLimiter
}

// checkQueue returns the faults of the cells of a queue: of a workflow's limits, of a start window, or of a handler's
// rate.
func checkQueue(name string, cells []store.Cell) []string {
	if !strings.Contains(name, "/") {
		return limits.CheckQueue(cells)
	}
	if strings.HasPrefix(name, limits.StartWindowPrefix) {
		return limits.CheckStartWindows(name, cells)
	}
	return limits.CheckHandlerLimits(name, cells)
}
