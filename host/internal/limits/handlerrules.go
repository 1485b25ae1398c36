package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// HandlerLimits are the limits of one handler.
type HandlerLimits struct {
	Handler string
	Rules   Rules
}

// handlerDirectory returns the queue whose cells hold the limits of a namespace's handlers, keyed by handler name.
func handlerDirectory(ns store.NamespaceID) store.RunKey {
	return store.RunKey{Namespace: ns, ID: QueuePrefix}
}

// Load reads the limits of a namespace's handlers, unless they were read before.
func (t *HandlerLimiter) Load(ctx context.Context, ns store.NamespaceID) error {
	t.mu.Lock()
	s := t.namespaces[ns]
	if s == nil {
		s = &namespaceLimits{}
		t.namespaces[ns] = s
	}
	t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mu.Lock()
	read := s.read
	t.mu.Unlock()
	if read {
		return nil
	}
	list, err := t.All(ctx, ns)
	if err != nil {
		t.cfg.Logger.Error("the limits of handlers cannot be read", "cause", err)
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range list {
		t.set(HandlerKey{ns, l.Handler}, l.Rules)
	}
	s.read = true
	return nil
}

// Reload reads again the limits of all namespaces whose limits were read, since another host may have changed them.
func (t *HandlerLimiter) Reload(ctx context.Context) error {
	t.mu.Lock()
	namespaces := maps.Clone(t.namespaces)
	t.mu.Unlock()
	for ns, s := range namespaces {
		if err := t.reload(ctx, ns, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *HandlerLimiter) reload(ctx context.Context, ns store.NamespaceID, s *namespaceLimits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := t.All(ctx, ns)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.read { // nobody has asked yet
		return nil
	}
	now := map[HandlerKey]Rules{}
	for key := range t.queues {
		if key.Namespace == ns {
			now[key] = nil
		}
	}
	for _, l := range list {
		now[HandlerKey{ns, l.Handler}] = l.Rules
	}
	for key, rules := range now {
		var old Rules
		if g := t.queues[key]; g != nil {
			old = g.rules
		}
		if !slices.Equal(old, rules) {
			t.set(key, rules)
		}
	}
	return nil
}

// All returns the limits of a namespace's handlers, ordered by name.
func (t *HandlerLimiter) All(ctx context.Context, ns store.NamespaceID) (list []HandlerLimits, err error) {
	cells, err := t.cfg.Store.Cells(ctx, store.CellQuery{Queue: handlerDirectory(ns), Limit: MaxHandlers + 1})
	for _, c := range cells {
		rules, err := DecodeRules(c.Value)
		if err != nil {
			return nil, fmt.Errorf("handler %q: %w: %w", c.Key, store.ErrCorrupt, err)
		}
		list = append(list, HandlerLimits{string(c.Key), rules})
	}
	return list, err
}

// Set sets the limits of a handler, or removes them if rules is empty. On return they are durable and apply on this host.
// Set returns an *abi.Error with code LIMIT if too many handlers have limits.
func (t *HandlerLimiter) Set(ctx context.Context, key HandlerKey, rules Rules) error {
	if err := t.Load(ctx, key.Namespace); err != nil {
		return err
	}
	t.mu.Lock()
	s := t.namespaces[key.Namespace]
	t.mu.Unlock()
	s.mu.Lock() // so that memory and store agree
	defer s.mu.Unlock()
	cells, err := t.cfg.Store.Cells(ctx, store.CellQuery{Queue: handlerDirectory(key.Namespace), Limit: MaxHandlers + 1})
	if err != nil {
		return err
	}
	cell := store.Cell{Key: []byte(key.Name)}
	for _, c := range cells {
		if string(c.Key) == key.Name {
			cell.Value = c.Value
		}
	}
	if cell.Value == nil && len(rules) > 0 && len(cells) >= MaxHandlers {
		return abi.Errorf(abi.Limit, "%d handlers of the namespace have limits, the limit is %d", len(cells), MaxHandlers)
	}
	now := store.Cell{Key: cell.Key, Value: rules.Encode()}
	err = t.cfg.Store.SetCells(ctx, store.QueueSet{Queue: handlerDirectory(key.Namespace), Before: cell, Cells: []store.Cell{now},
		Setting: true})
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.set(key, rules)
	t.mu.Unlock()
	if len(rules) > 0 {
		return nil
	}
	if err := t.purge(ctx, key); err != nil { // the limits are removed, as the caller asked
		t.cfg.Logger.Warn("what was counted of a handler without limits is kept until it has some again", "handler", key.Name,
			"cause", err)
		if errors.Is(err, store.ErrFailed) {
			t.cfg.Failed(err)
		}
	}
	return nil
}

// purgeCells is how many cells one commit deletes.
const purgeCells = 1000

// purge deletes the counters of a handler without limits. Counters that remain are swept when the handler has limits again.
func (t *HandlerLimiter) purge(ctx context.Context, key HandlerKey) error {
	queue := store.RunKey{Namespace: key.Namespace, ID: QueuePrefix + key.Name}
	for {
		list, err := t.cfg.Store.Cells(ctx, store.CellQuery{Queue: queue, Limit: purgeCells})
		if err != nil || len(list) == 0 {
			return err
		}
		set := store.QueueSet{Queue: queue, Before: list[0]}
		for _, c := range list {
			set.Cells = append(set.Cells, store.Cell{Key: c.Key})
		}
		err = t.cfg.Store.SetCells(ctx, set)
		if errors.Is(err, store.ErrConflict) { // another host or a commit in flight still counts
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// CheckHandlerLimits returns the invalid cells of a queue of this package.
func CheckHandlerLimits(name string, cells []store.Cell) (problems []string) {
	for _, c := range cells {
		var err error
		switch {
		case name == QueuePrefix:
			_, err = DecodeRules(c.Value)
		case c.Key[0] == ratePart[0]:
			_, _, err = parseAttemptCell(c.Value)
		case string(c.Key) != revisionCell || len(c.Value) != revisionBytes:
			err = errors.New("it is none of this release")
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("its cell %q: %v", c.Key, err))
		}
	}
	return problems
}
