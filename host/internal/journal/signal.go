package journal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// A signal is kept from its acceptance until a wait of its name is there, and is then bound to the oldest open one
// by a delivery of its own. A wait that is withdrawn before the workflow was told gives its signal back.

func (j *Journal) accept(e *store.Entry) {
	j.waits.addSignal(e)
	j.Set.Accept(e)
	if e.Target != "" {
		j.keys.add(Key{Name: e.Name, Key: e.Target, Digest: digest(e.Data), Iteration: j.started.Iteration})
	}
}

// bind binds signals to waits as long as there is a pair, in the order of the signals.
func (j *Journal) bind(nowUnixMs int64) error {
	for _, p := range j.waits.pairs() {
		if _, err := j.append(store.Entry{Kind: store.KindSignal, Handle: p.wait, Ref: p.signal}, nowUnixMs); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) checkSignal(e *store.Entry, h *Handle) error {
	if !j.waits.has(h.Name, e.Ref) {
		return illegal("signal %d for handle %d, which is no open signal of its name", e.Ref, e.Handle)
	}
	return nil
}

func (j *Journal) foldSignal(e *store.Entry, h *Handle) {
	h.Signal, h.Bound = e.Ref, true
	j.waits.removeSignal(&j.entries[e.Ref])
	j.Set.Take(e.Ref, h.ID)
}

// unbind gives the signal of a withdrawn wait back, at its place in the order of acceptance.
func (j *Journal) unbind(h *Handle) {
	if !h.Bound {
		return
	}
	h.Bound = false
	j.waits.addSignal(&j.entries[h.Signal])
	j.Set.GiveBack(h.ID)
}

// CheckSignal says whether the run takes another signal: same is true if it has taken this very one, by its name and
// idempotency key. The error is an *abi.Error of Conflict (the key came with another payload) or Limit.
//
// It is asked before the signal is appended, so that what a journal holds does not depend on it.
func (j *Journal) CheckSignal(name, key string, data []byte) (same bool, err error) {
	if old, ok := j.keys.find(name, key); ok && key != "" {
		if old.Digest != digest(data) {
			if update, ok := strings.CutPrefix(name, abi.UpdatePrefix); ok {
				return false, abi.Errorf(abi.Conflict, "an update %q with the id %q and another input was accepted", update, key)
			}
			return false, abi.Errorf(abi.Conflict, "a signal %q with the idempotency key %q and another payload was accepted", name, key)
		}
		return true, nil
	}
	if j.waits.first(name) == 0 { // else it is taken at once
		if err := j.waits.room(j, name, int64(len(data))); err != nil {
			return false, err
		}
	}
	return false, j.signalRoom(len(data))
}

// Pending gives the accepted signals that nobody has taken, in order: those that are bound to no wait, and those
// whose wait the workflow was not told of, which told says of a handle.
func (j *Journal) Pending(told func(handle int64) bool) (list []store.Entry) {
	seqs := j.waits.pending()
	for i := range j.handles {
		if h := &j.handles[i]; h.Bound && !told(h.ID) {
			seqs = append(seqs, h.Signal)
		}
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		list = append(list, j.entries[seq])
	}
	return list
}

// Key is an idempotency key of a signal that was accepted, with the SHA-256 of its payload. One key with two names is two keys.
type Key struct {
	// Name is the signal's. Iterations of older releases handed keys over without it: those match every name, as they
	// did there.
	Name   string `json:"n,omitempty"`
	Key    string `json:"k"`
	Digest string `json:"d"`
	// Iteration is the newest one that has accepted it: where the answer to an update is.
	Iteration uint32 `json:"i,omitempty"`
}

// digestBytes is how much of the SHA-256 of a payload is kept.
const digestBytes = 16

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestBytes]) // half of it tells two payloads apart
}

// keys are the newest idempotency keys of a run, oldest first.
type keys struct {
	list      []Key
	known     map[named]int // at which place of list, counted with those that were forgotten
	forgotten int
}

// named is what a signal is recognized by.
type named struct{ name, key string }

func (k *keys) find(name, key string) (Key, bool) {
	at, ok := k.known[named{name, key}]
	if !ok {
		at, ok = k.known[named{"", key}]
	}
	if !ok {
		return Key{}, false
	}
	return k.list[at-k.forgotten], true
}

func (k *keys) add(key Key) {
	if k.known == nil {
		k.known = map[named]int{}
	}
	if at, ok := k.known[named{key.Name, key.Key}]; ok { // an update that has moved over from the iteration before
		k.list[at-k.forgotten] = key
	} else {
		k.known[named{key.Name, key.Key}] = k.forgotten + len(k.list)
		k.list = append(k.list, key)
	}
	if len(k.list) > abi.MaxSignalKeys {
		delete(k.known, named{k.list[0].Name, k.list[0].Key})
		k.list = k.list[1:]
		k.forgotten++
	}
}

// Known returns the idempotency key of a signal that was accepted, false if there is none of this name, or if it was forgotten.
func (j *Journal) Known(name, key string) (Key, bool) { return j.keys.find(name, key) }

// Keys gives the idempotency keys that the run remembers, oldest first.
func (j *Journal) Keys() Keys { return slices.Clone(j.keys.list) }

// CancelPolicy gives what the workflow wants a cancel to do.
func (j *Journal) CancelPolicy() int32 { return j.policy }

// CancelUnixMs gives when a cooperative cancel was accepted, 0 if none was.
func (j *Journal) CancelUnixMs() int64 { return j.cancelMs }

// Paused tells whether an operator has paused the run.
func (j *Journal) Paused() bool { return j.paused }

// Output gives the number of chunks of output.
func (j *Journal) Output() uint64 { return j.output }

// Attributes gives the run's attributes, sorted by key.
func (j *Journal) Attributes() (list []store.Attribute) {
	for k, v := range j.attributes {
		list = append(list, store.Attribute{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b store.Attribute) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// CheckAttribute says whether the run may have an attribute.
func (j *Journal) CheckAttribute(key string) error {
	if _, ok := j.attributes[key]; !ok && len(j.attributes) >= abi.MaxAttributes {
		return abi.Errorf(abi.Limit, "the run has %d attributes, the limit is %d", len(j.attributes), abi.MaxAttributes)
	}
	return nil
}

func (j *Journal) setAttribute(key, value string) {
	if j.attributes == nil {
		j.attributes = map[string]string{}
	}
	j.attributes[key] = value
}

// foldStarted takes over what earlier iterations have left.
func (j *Journal) foldStarted() {
	j.policy, j.cancelMs, j.output = j.started.Policy, j.started.CancelMs, j.started.Output
	for k, v := range j.started.Attributes {
		j.setAttribute(k, v)
	}
	for _, k := range j.started.Keys {
		j.keys.add(k)
	}
}

// ChildID returns the run id of a child that its call, at seq, does not name: the parent's id and the seq, between them the
// iteration if it is not the first, and behind the parent's id some of its incarnation if it has replaced another run of its
// id. The id of a long parent is replaced by its SHA-256.
func (j *Journal) ChildID(seq store.Seq) string {
	parent, call := j.started.RunID, fmt.Sprint(seq)
	if j.started.Iteration > 0 {
		call = fmt.Sprintf("%d.%d", j.started.Iteration, seq)
	}
	if j.started.ChildSalt != "" {
		call = j.started.ChildSalt + "." + call
	}
	if len(parent)+1+len(call) > abi.MaxRunIDBytes {
		sum := sha256.Sum256([]byte(parent))
		parent = hex.EncodeToString(sum[:16])
	}
	return parent + "." + call
}
