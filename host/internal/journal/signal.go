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

// A signal is pending from its acceptance until it is bound, by a delivery, to the oldest open wait of its name. If the
// workflow withdraws the wait before it received the signal, the signal is pending again.

func (j *Journal) accept(e *store.Entry) {
	j.waits.addSignal(e)
	j.Set.Accept(e)
	if e.Target != "" {
		j.keys.add(Key{Name: e.Name, Key: e.Target, Digest: digest(e.Data), Iteration: j.started.Iteration})
	}
}

// bind appends a delivery for each pair of a pending signal and an open wait, in the order of the signals.
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
	j.Set.Bind(e.Ref, h.ID)
}

// unbind makes the signal of a withdrawn wait pending again, at its place in the order of acceptance.
func (j *Journal) unbind(h *Handle) {
	if !h.Bound {
		return
	}
	h.Bound = false
	j.waits.addSignal(&j.entries[h.Signal])
	j.Set.Unbind(h.ID)
}

// CheckSignal returns an error if the run does not accept the signal. same reports whether it already accepted this signal,
// by name and idempotency key. The error is an *abi.Error: Conflict if the key came with another payload, or Limit.
//
// Callers check before they append. Append and Load do not check, so whether a journal is legal does not depend on limits.
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
	if j.waits.first(name) == 0 { // otherwise a wait takes it at once
		if err := j.waits.room(j, name, int64(len(data))); err != nil {
			return false, err
		}
	}
	return false, j.signalRoom(len(data))
}

// Pending returns the accepted signals that the workflow has not received, in order: unbound signals, and bound signals whose
// handle the workflow has not been told, according to told.
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

// Key is the idempotency key of an accepted signal, with the digest of its payload. Keys of different names are independent.
type Key struct {
	// Name is the name of the signal. Older releases passed keys to the next iteration without it; a key without a name matches
	// every name, as it did there.
	Name   string `json:"n,omitempty"`
	Key    string `json:"k"`
	Digest string `json:"d"`
	// Iteration is the newest iteration that accepted the signal. It holds the answer to an update.
	Iteration uint32 `json:"i,omitempty"`
}

// digestBytes is the length of a digest: the first half of the SHA-256 of a payload.
const digestBytes = 16

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestBytes]) // half of it is enough to tell payloads apart
}

// keys holds the newest abi.MaxSignalKeys idempotency keys of a run, oldest first.
type keys struct {
	list      []Key
	known     map[named]int // position in list, plus the number of forgotten keys when it was added
	forgotten int
}

// named identifies a signal by name and idempotency key.
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
	if at, ok := k.known[named{key.Name, key.Key}]; ok { // an update that the iteration before passed on
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

// Known returns the idempotency key of an accepted signal; false if no signal of this name had the key, or it was forgotten.
func (j *Journal) Known(name, key string) (Key, bool) { return j.keys.find(name, key) }

// Keys returns the idempotency keys that the run remembers, oldest first.
func (j *Journal) Keys() Keys { return slices.Clone(j.keys.list) }

// CancelPolicy returns what a cancel does: abi.CancelFinal or abi.CancelCooperative.
func (j *Journal) CancelPolicy() int32 { return j.policy }

// CancelUnixMs returns when a cooperative cancel was accepted, or 0.
func (j *Journal) CancelUnixMs() int64 { return j.cancelMs }

// Paused reports whether an operator has paused the run.
func (j *Journal) Paused() bool { return j.paused }

// Output returns the number of chunks of output, including earlier iterations.
func (j *Journal) Output() uint64 { return j.output }

// Attributes returns the run's attributes, sorted by key.
func (j *Journal) Attributes() (list []store.Attribute) {
	for k, v := range j.attributes {
		list = append(list, store.Attribute{Key: k, Value: v})
	}
	slices.SortFunc(list, func(a, b store.Attribute) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// CheckAttribute returns an abi.Limit error if the run has abi.MaxAttributes attributes and key is not one of them.
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

// foldStarted takes over the state that entry 0 passes on from earlier iterations.
func (j *Journal) foldStarted() {
	j.policy, j.cancelMs, j.output = j.started.Policy, j.started.CancelMs, j.started.Output
	for k, v := range j.started.Attributes {
		j.setAttribute(k, v)
	}
	for _, k := range j.started.Keys {
		j.keys.add(k)
	}
}

// ChildID returns the generated run id of a child whose call, at seq, gives none: "parent.seq", "parent.iteration.seq" after
// the first iteration, and with the child salt after the parent's id if the parent replaced another run of its id. If that is
// longer than abi.MaxRunIDBytes, half of the SHA-256 of the parent's id, in hex, replaces the parent's id.
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
