package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/runtime"
)

// SignalOption is an option of Signal.
type SignalOption func(*run.Signal)

// WithIdempotencyKey makes a repeated signal recognizable. The same name, key and payload again change nothing. The
// same name and key with another payload are ErrConflict. Keys of signals with different names are independent. A run
// remembers its newest 10,000 keys.
func WithIdempotencyKey(key string) SignalOption {
	return func(n *run.Signal) { n.IdempotencyKey = key }
}

func newSignal(name string, payload any, opts []SignalOption) (run.Signal, error) {
	data, err := encoded(fmt.Sprintf("the payload of signal %q", name), payload)
	if err != nil {
		return run.Signal{}, err
	}
	return newRawSignal(name, data, opts)
}

func newRawSignal(name string, data []byte, opts []SignalOption) (run.Signal, error) {
	n := run.Signal{Name: name, Data: bytes.Clone(data)} // the caller may reuse its buffer
	for _, o := range opts {
		o(&n)
	}
	if err := abi.CheckName("signal name", name); err != nil {
		return n, translate(err)
	}
	if n.IdempotencyKey != "" {
		if err := abi.CheckName("idempotency key", n.IdempotencyKey); err != nil {
			return n, translate(err)
		}
	}
	if len(data) > abi.MaxPayloadBytes {
		return n, translate(abi.Errorf(abi.TooLarge, "the payload of signal %q has %d bytes, the limit is %d", name, len(data),
			abi.MaxPayloadBytes))
	}
	return n, nil
}

// Signal sends a signal to a run. The payload is encoded as JSON; a json.RawMessage or nil is taken as it is. The
// signal is durable on return. It is kept until the workflow takes it: first in, first out for each name. ErrTerminal
// if the run has ended, unless it accepted this signal before, as its idempotency key shows. ErrBusy if the run has
// too many pending signals, ErrDiskFull if the disk has no room for the signal.
func (s *scope) Signal(ctx context.Context, id, name string, payload any, opts ...SignalOption) error {
	n, err := newSignal(name, payload, opts)
	if err != nil {
		return err
	}
	return s.signal(ctx, id, n)
}

// SignalRaw is Signal with a payload of any bytes.
func (s *scope) SignalRaw(ctx context.Context, id, name string, payload []byte, opts ...SignalOption) error {
	n, err := newRawSignal(name, payload, opts)
	if err != nil {
		return err
	}
	return s.signal(ctx, id, n)
}

func (s *nsRef) signal(ctx context.Context, id string, n run.Signal) error {
	if err := s.h.roomOnDisk(len(n.Data)); err != nil {
		return err
	}
	key, err := s.key(ctx, id)
	if err == nil {
		err = s.fittingTo(ctx, key, n)
	}
	if err == nil {
		_, err = s.h.rt.Runs.Signal(ctx, key, n)
	}
	return busy(translate(err))
}

// HookReply is the answer to a delivery to a hook.
type HookReply struct {
	Status      int // HTTP status code
	ContentType string
	Body        string
}

// Check returns ErrNotFound, as Hooks.Deliver does, if no live run holds the token. A server calls it before it
// reads the payload.
func (s Hooks) Check(ctx context.Context, token string) error {
	_, err := s.hook(ctx, token)
	return err
}

// noHook returns the one error for every token that reaches no run: the token, its run or the namespace is unknown.
func noHook() error { return &joined{errors.New("no run holds this token"), ErrNotFound} }

// hook returns the hook of the run that holds a token.
func (s *nsRef) hook(ctx context.Context, token string) (runtime.Hook, error) {
	ns, err := s.id(ctx, false)
	var hook runtime.Hook
	if err == nil {
		hook, err = s.h.rt.Runs.HookOf(ctx, ns, token)
	}
	err = translate(err)
	if isNotFound(err) {
		err = noHook()
	}
	return hook, err
}

// Deliver delivers a payload to the run that holds a token, as a signal of the hook's name. The signal is durable
// on return. ErrNotFound if no live run holds the token, for whatever reason. ErrBusy and ErrDiskFull as in Signal.
func (s Hooks) Deliver(ctx context.Context, token string, payload []byte, opts ...SignalOption) (HookReply, error) {
	hook, err := s.hook(ctx, token)
	if err != nil {
		return HookReply{}, err
	}
	n, err := newRawSignal(hook.Name, payload, opts)
	if err != nil {
		return HookReply{}, err
	}
	if err := s.h.roomOnDisk(len(payload)); err != nil {
		return HookReply{}, err
	}
	if err := s.fittingTo(ctx, hook.Run, n); err != nil {
		return HookReply{}, err
	}
	if _, err := s.h.rt.Runs.Signal(ctx, hook.Run, n); err != nil {
		err = translate(err)
		if isEnded(err) {
			return HookReply{}, noHook()
		}
		return HookReply{}, busy(err)
	}
	return HookReply{Status: hook.Options.Status, ContentType: hook.Options.ContentType, Body: hook.Options.Body}, nil
}
