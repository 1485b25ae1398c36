package limits

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

const (
	// StartWindowPrefix precedes the workflow's name in the name of the queue of its windows. The queue named by the
	// prefix alone holds the policies of all workflows of a namespace.
	StartWindowPrefix = "start/"
	// MaxPolicies bounds the workflows of a namespace that have a policy.
	MaxPolicies = store.MaxLimitsOfOne
	// DefaultLongest times the quiet time is the default of the longest wait of a debounce.
	DefaultLongest = 10

	windowPart = 'w'
	// startSweepCells is how many windows are examined with each new one, in order to delete those that have passed.
	startSweepCells = 4
	// locks is the number of locks that keys share. A start holds the lock of its key until it is durable.
	locks = 256
)

// StartPolicy says how the starts of a workflow are merged.
type StartPolicy struct {
	Throttle  bool   `json:"throttle,omitempty"`
	Ms        int64  `json:"ms"`                // the quiet time of a debounce, or the window of a throttle
	LongestMs int64  `json:"longest,omitempty"` // of a debounce: the longest time from the first start to the beginning of the run
	Per       string `json:"per,omitempty"`     // path of the key in the input; empty = all starts
}

// ParseStartPolicy reads a policy such as "10s per input.customer".
func ParseStartPolicy(throttle bool, text string) (p StartPolicy, err error) {
	what, most := "a debounce is a duration", "10s"
	if throttle {
		what, most = "a throttle is a duration", "1h"
	}
	words := strings.Fields(text)
	bad := len(words) != 1 && (len(words) != 3 || words[1] != "per")
	if !bad {
		r, err := ParseRate(strings.Join(append([]string{"1/" + words[0]}, words[1:]...), " "))
		p = (StartPolicy{Throttle: throttle, Ms: r.WindowMs, Per: r.Per})
		if err == nil {
			return p, nil
		}
		if r.WindowMs > 0 && r.WindowMs <= MaxWindowMs { // then the key is wrong
			return p, err
		}
	}
	return p, abi.Errorf(abi.InvalidArgument, "%s from 1ms to %s, as in %q or %q, got %q", what,
		abi.FormatDuration(MaxWindowMs), most, most+" per input.customer", text)
}

// String returns the policy in the form that ParseStartPolicy reads.
func (p *StartPolicy) String() string {
	text := abi.FormatDuration(p.Ms)
	if p.Per != "" {
		text += " per " + p.Per
	}
	return text
}

// key returns the name of the cell for the key in an input.
func (p *StartPolicy) key(input []byte) string {
	keys := Rules{{Max: 1, Per: p.Per}}.Of(input, 0).Keys
	sum := sha256.Sum256([]byte(p.Per + "\x00" + keys[p.Per]))
	return string(windowPart) + string(sum[:16])
}

// StartWindow is the window of a key: its run and its times.
type StartWindow struct {
	Run     string `json:"run"`
	FirstMs int64  `json:"first"` // when the window began
	EndMs   int64  `json:"end"`   // of a debounce: when its run begins at the latest
}

// StartWindows merges starts of a workflow. With a debounce, the starts of a key within a short time become one run, which
// begins when no further start has come for the quiet time. With a throttle, the first start of a key within a window gets a
// run, and later starts are told which run it is.
//
// The durable record of a key names the run of its window. It is stored before the run, so the window of an acknowledged
// run is known whatever crashes. A record whose run does not exist does not count.
// Its methods may be called concurrently.
type StartWindows struct {
	store store.LimitStore
	locks [locks]chan struct{} // by cell name; a lock is held while its channel contains an element
}

// NewStartWindows returns StartWindows that use a store.
func NewStartWindows(s store.LimitStore) *StartWindows {
	w := &StartWindows{store: s}
	for i := range w.locks {
		w.locks[i] = make(chan struct{}, 1)
	}
	return w
}

func (w *StartWindows) one(ctx context.Context, queue store.RunKey, name string) ([]byte, error) {
	list, err := w.store.Cells(ctx, store.CellQuery{Queue: queue, From: []byte(name), To: []byte(name + "\x00"), Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0].Value, nil
}

// NamedPolicy is the policy of a workflow.
type NamedPolicy struct {
	Workflow string
	StartPolicy
}

func startDirectory(ns store.NamespaceID) store.RunKey {
	return store.RunKey{Namespace: ns, ID: StartWindowPrefix}
}

// All returns the policies of a namespace, ordered by workflow.
func (w *StartWindows) All(ctx context.Context, ns store.NamespaceID) (list []NamedPolicy, err error) {
	cells, err := w.store.Cells(ctx, store.CellQuery{Queue: startDirectory(ns), Limit: MaxPolicies + 1})
	for _, c := range cells {
		n := NamedPolicy{Workflow: string(c.Key)}
		if err := decodeStart(c.Value, &n.StartPolicy); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, err
}

// Of returns the policy of a workflow, nil if it has none.
func (w *StartWindows) Of(ctx context.Context, ns store.NamespaceID, workflow string) (*StartPolicy, error) {
	b, err := w.one(ctx, startDirectory(ns), workflow)
	if err != nil || b == nil {
		return nil, err
	}
	p := &StartPolicy{}
	return p, decodeStart(b, p)
}

// Set sets the policy of a workflow, or removes it if p is nil. It is durable on return. Set returns an *abi.Error with code
// LIMIT if too many workflows have policies, and store.ErrConflict if another host sets the policy at the same time.
func (w *StartWindows) Set(ctx context.Context, ns store.NamespaceID, workflow string, p *StartPolicy) error {
	cells, err := w.store.Cells(ctx, store.CellQuery{Queue: startDirectory(ns), Limit: MaxPolicies + 1})
	if err != nil {
		return err
	}
	before, now := store.Cell{Key: []byte(workflow)}, store.Cell{Key: []byte(workflow)}
	for _, c := range cells {
		if string(c.Key) == workflow {
			before.Value = c.Value
		}
	}
	if p != nil && before.Value == nil && len(cells) >= MaxPolicies {
		return abi.Errorf(abi.Limit, "the starts of %d workflows of the namespace are put together, the limit is %d", len(cells),
			MaxPolicies)
	}
	if p != nil {
		now.Value = encodeStart(p)
	}
	return w.store.SetCells(ctx, store.QueueSet{Queue: startDirectory(ns), Before: before, Cells: []store.Cell{now}})
}

// StartKey is the window of a start's key, locked until Unlock.
type StartKey struct {
	w      *StartWindows
	queue  store.RunKey
	name   string
	value  []byte
	Unlock func()
	Window StartWindow // zero if there is none
}

// Lock locks and reads the window of a start's key. Further starts with the same key on this host block until Unlock or the
// end of their ctx.
func (w *StartWindows) Lock(ctx context.Context, ns store.NamespaceID, workflow string, p *StartPolicy,
	input []byte) (*StartKey, error) {
	k := &StartKey{w: w, queue: store.RunKey{Namespace: ns, ID: StartWindowPrefix + workflow}, name: p.key(input)}
	l := w.locks[k.name[1]]
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	k.Unlock = func() { <-l }
	if err := k.read(ctx); err != nil {
		k.Unlock()
		return nil, err
	}
	return k, nil
}

// Window returns the window of a start's key, zero if there is none.
func (w *StartWindows) Window(ctx context.Context, ns store.NamespaceID, workflow string, p *StartPolicy,
	input []byte) (StartWindow, error) {
	k := &StartKey{w: w, queue: store.RunKey{Namespace: ns, ID: StartWindowPrefix + workflow}, name: p.key(input)}
	err := k.read(ctx)
	return k.Window, err
}

func (k *StartKey) read(ctx context.Context) (err error) {
	k.Window = StartWindow{}
	k.value, err = k.w.one(ctx, k.queue, k.name)
	if err == nil && k.value != nil {
		err = decodeStart(k.value, &k.Window)
	}
	return err
}

// Open begins a window, durable on return. If another host changed the window first, Open reads it again and reports false.
func (k *StartKey) Open(ctx context.Context, x StartWindow) (ok bool, err error) {
	value := encodeStart(&x)
	set := store.QueueSet{Queue: k.queue, Before: store.Cell{Key: []byte(k.name), Value: k.value},
		Cells: []store.Cell{{Key: []byte(k.name), Value: value}}}
	old, err := k.behind(ctx)
	for _, c := range old {
		var o StartWindow
		if json.Unmarshal(c.Value, &o) == nil && o.EndMs < x.FirstMs {
			set.Expired = append(set.Expired, c) // only if unchanged: its key may have a new window by now
		}
	}
	if err == nil {
		err = k.w.store.SetCells(ctx, set)
	}
	if errors.Is(err, store.ErrConflict) {
		return false, k.read(ctx)
	}
	if err == nil {
		k.value, k.Window = value, x
	}
	return err == nil, err
}

// behind returns the windows with the next names, continuing with the first name after the last one. Names are hashes, so
// every window is reached in time; without the wrap, the windows with the first names might stay.
func (k *StartKey) behind(ctx context.Context) ([]store.Cell, error) {
	list, err := k.w.store.Cells(ctx, store.CellQuery{Queue: k.queue, From: append([]byte(k.name), 0), Limit: startSweepCells})
	if left := startSweepCells - len(list); left > 0 && err == nil {
		var first []store.Cell
		first, err = k.w.store.Cells(ctx, store.CellQuery{Queue: k.queue, To: []byte(k.name), Limit: left})
		list = append(list, first...)
	}
	return list, err
}

// ClockSet moves a window that begins in the future, because the clock was set back, to now. It is durable on return.
func (k *StartKey) ClockSet(ctx context.Context, nowMs int64) error {
	for x := k.Window; x.FirstMs > nowMs; x = k.Window {
		x.FirstMs, x.EndMs = nowMs, x.EndMs-(x.FirstMs-nowMs)
		if _, err := k.Open(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// CheckStartWindows returns the invalid cells of a queue of this package.
func CheckStartWindows(name string, cells []store.Cell) (problems []string) {
	for _, c := range cells {
		var x any = &StartPolicy{}
		if name != StartWindowPrefix {
			x = &StartWindow{}
		}
		if err := decodeStart(c.Value, x); err != nil {
			problems = append(problems, fmt.Sprintf("its cell %q: %v", c.Key, err))
		}
	}
	return slices.Clip(problems)
}

func encodeStart(x any) []byte {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err) // numbers and text always encode
	}
	return b
}

func decodeStart(b []byte, x any) error {
	if err := json.Unmarshal(b, x); err != nil {
		return fmt.Errorf("%w: the window of starts: %w", store.ErrCorrupt, err)
	}
	return nil
}
