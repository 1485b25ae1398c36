package sched

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// nextIdentity says under which version the run continues as new.
func (a *activation) nextIdentity(next *identity) error {
	o := a.o
	if err := a.LeftOver(); err != nil {
		return err
	}
	call := a.Outcome().Continue
	opts, err := abi.ParseContinueOptions(call.Options)
	if err != nil {
		return err
	}
	o.mu.Lock()
	*next = o.ident
	workflow := o.state.Workflow
	o.mu.Unlock()
	next.iteration++
	if opts.Version != abi.ContinueLatest {
		return nil
	}
	v, err := o.s.cfg.Store.Modules().Version(o.s.ctx, o.key.Namespace, workflow, 0)
	if err != nil {
		return err
	}
	next.version, next.module = v.Number, v.Module
	return nil
}

// continueAsNew ends the iteration and begins the next one. Both are one commit. Signals that nobody has taken move
// over in order; output, attributes and the keys of signals stay; what was open is dropped. The owner is locked.
func (a *activation) continueAsNew(next identity) error {
	o := a.o
	if _, err := o.append(store.Entry{Kind: store.KindContinued}); err != nil {
		return err
	}
	before := o.journal
	s := before.Started()
	s.Iteration, s.Version, s.Module = next.iteration, next.version, next.module.String()
	s.Output, s.Keys, s.Policy, s.AtUnixMs = before.Output(), before.Keys(), before.CancelPolicy(), 0
	s.Attributes = map[string]string{}
	for _, x := range before.Attributes() {
		s.Attributes[x.Key] = x.Value
	}
	told := a.Outcome().Cancelled
	if told {
		s.CancelMs = before.CancelUnixMs()
	} else {
		s.CancelMs = 0
	}
	j := &journal.Journal{}
	now := max(o.s.nowMs(), before.LastUnixMs())
	if _, err := j.Append(s.Entry(a.Outcome().Continue.Input), now); err != nil {
		return err
	}
	for _, e := range before.Pending(a.Told) {
		x := store.Entry{Kind: store.KindSignalAccepted, Name: e.Name, Data: e.Data} // its key moved with the others
		if _, err := j.Append(x, now); err != nil {
			return err
		}
	}
	if !told && before.CancelUnixMs() != 0 {
		if _, err := j.Append(store.Entry{Kind: store.KindCancel}, now); err != nil {
			return err
		}
	}
	o.old, o.oldMade = before, o.durable
	o.journal, o.durable, o.restored, o.ident = j, 0, 0, next
	o.logLines, o.pending, o.waiting, o.attempts = 0, true, "", map[int64]*attempt{}
	return nil
}

// newToken makes a token for a hook of a run: 130 random bits in base32 (RFC 4648, lower case), and the run's id, by
// which it is found.
func newToken(s *Scheduler, run store.RunKey) string {
	var b [17]byte
	s.cfg.Random(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))[:tokenBytes] + "." + run.ID
}

// tokenBytes is the length of the random part of a token.
const tokenBytes = 26

// tokenRun returns the run that a token names if the host has made it, and false if the host cannot have made it.
func tokenRun(token string) (id string, ok bool) {
	if len(token) <= tokenBytes+1 || token[tokenBytes] != '.' {
		return "", false
	}
	return token[tokenBytes+1:], true
}

// Hook is where a token delivers to.
type Hook struct {
	Run     store.RunKey
	Name    string // of the signal that a delivery becomes
	Options abi.HookOptions
}

// HookOf finds the run that holds a token; store.ErrNotFound if none does, whatever the reason.
func (s *Scheduler) HookOf(ctx context.Context, token string) (h Hook, err error) {
	if id, ok := tokenRun(token); ok { // one that was chosen may look like this too, and its run is then another one
		if h, err = s.hookOf(ctx, store.RunKey{ID: id}, token); !errors.Is(err, store.ErrNotFound) {
			return h, err
		}
	}
	holder, ok, err := s.cfg.Store.Hook(ctx, 0, token)
	if err != nil || !ok {
		return h, errJoin(err, store.ErrNotFound)
	}
	return s.hookOf(ctx, holder.Run, token)
}

// hookOf returns the hook of a run that holds a token, or store.ErrNotFound.
func (s *Scheduler) hookOf(ctx context.Context, run store.RunKey, token string) (h Hook, err error) {
	h.Run = run
	err = s.with(ctx, h.Run, func(o *owner) error {
		x := o.journal.Hook(token)
		if x == nil {
			return store.ErrNotFound
		}
		h.Name = x.Name
		h.Options, err = abi.ParseHookOptions(x.Options)
		return err
	})
	return h, err
}

func errJoin(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// InputDigest gives the SHA-256 of an input, compacted if it is JSON, so that white space makes no difference.
func InputDigest(input []byte) store.Digest { return sha256.Sum256(compact(input)) }
