package workflow

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// updatePrefix begins the names of two messages of the host: the signal that carries an update, and the query that asks
// whether it is accepted.
const updatePrefix = "host/update/"

// Updates lists the updates that the workflow handles with OnUpdate, for the module's description. The host then refuses
// other updates without asking the workflow.
func Updates(names ...string) RegisterOption {
	return func(workflow string) {
		s := registered.schemas[workflow]
		for _, name := range names {
			if !slices.Contains(s.updates, name) { // UpdateOf may list it, too
				s.updates = append(s.updates, name)
			}
		}
	}
}

// UpdateOf lists an update with an input of type T, as Updates does. The module's description has a JSON Schema of T,
// derived as Register derives the schema of the workflow's input. The host refuses updates whose input does not match the
// schema.
func UpdateOf[T any](name string) RegisterOption {
	return func(workflow string) {
		Updates(name)(workflow)
		registered.schemas[workflow].updateTypes[name] = reflect.TypeFor[T]()
	}
}

// UpdateSchema lists an update, as UpdateOf does, with the text of the JSON Schema (draft 2020-12) of its input.
func UpdateSchema(name, text string) RegisterOption {
	return func(workflow string) {
		Updates(name)(workflow)
		registered.schemas[workflow].updateTexts[name] = text
	}
}

// updateHandler is the handler of an update with its types erased.
type updateHandler struct {
	validate func(input []byte) error
	handle   func(ctx context.Context, input []byte) ([]byte, error)
}

// updateSet holds the update handlers of one iteration of a run. Its zero value is empty.
type updateSet struct {
	mu      sync.Mutex // guards the fields below
	byName  map[string]updateHandler
	running int           // updates that were taken and not answered
	rest    chan struct{} // closed when running becomes 0; nil if no UpdatesDone waits
}

// UpdateOption is an option of OnUpdate.
type UpdateOption[In any] func(*updateOptions[In])

type updateOptions[In any] struct{ validate func(In) error }

// Validate sets the function that accepts or rejects an update. Like the function of Query, fn is called on a copy of the
// workflow at the point where it waits: it can read all of the workflow's memory, its changes are lost, and workflow calls
// in it return ErrNotHere. If fn returns an error, the sender gets the error and nothing is recorded. Earlier updates that
// were accepted may still be in progress when this update is handled.
func Validate[In any](fn func(in In) error) UpdateOption[In] {
	return func(o *updateOptions[In]) { o.validate = fn }
}

// OnUpdate handles updates of a name from now on. An update is a message to the run whose sender waits for the answer. When
// an update has been accepted durably, fn is called with ctx in a new goroutine. fn is part of the workflow: it may sleep
// and call steps, and later updates are handled concurrently. Its result or error is recorded and returned to the sender. A
// panic fails the run.
//
// Updates of the name are refused before OnUpdate is called and after ctx has ended. Updates whose input cannot be decoded
// are refused, too. If the workflow returns or continues as new, the updates that it has taken and not answered fail: call
// UpdatesDone before, but not in a handler. Accepted updates that it has not taken stay for the next iteration. OnUpdate
// panics if the name has a handler already, unless the ctx of that handler has ended.
func OnUpdate[In, Out any](ctx context.Context, name string, fn func(ctx context.Context, in In) (Out, error),
	opts ...UpdateOption[In]) {
	var o updateOptions[In]
	for _, f := range opts {
		f(&o)
	}
	read := func(input []byte) (in In, err error) {
		err = decode(input, &in)
		if err != nil {
			err = fmt.Errorf("input of update %q: %w", name, err)
		}
		return in, err
	}
	h := updateHandler{
		validate: func(input []byte) error {
			in, err := read(input)
			if err == nil && o.validate != nil {
				err = o.validate(in)
			}
			return err
		},
		handle: func(ctx context.Context, input []byte) ([]byte, error) {
			in, err := read(input)
			if err != nil {
				return nil, err
			}
			out, err := fn(ctx, in)
			if err != nil {
				return nil, err
			}
			return encode(out)
		},
	}
	set := updatesOf(ctx)
	set.add(name, h)
	go func() {
		for {
			handle, input, err := updateWait(ctx, updatePrefix+name)
			if err != nil {
				if ctx.Err() != nil { // keep the handler if the journal is full: updates not taken stay for the next iteration
					set.remove(name)
				}
				return
			}
			set.begin()
			go func() {
				b, err := h.handle(ctx, input)
				if err := updateReply(ctx, handle, b, err); err != nil {
					Log(ctx).Error("update has no answer", "name", name, "cause", err)
				}
				set.end()
			}()
		}
	}()
}

func (s *updateSet) add(name string, h updateHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byName[name]; ok {
		panic(fmt.Sprintf("update %q is handled twice", name))
	}
	if s.byName == nil {
		s.byName = map[string]updateHandler{}
	}
	s.byName[name] = h
}

func (s *updateSet) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}

// validate returns nil if an update is accepted, or the reason for refusing it.
func (s *updateSet) validate(name string, input []byte) error {
	s.mu.Lock()
	h, ok := s.byName[name]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("the workflow has no handler for update %q where it waits", name)
	}
	return h.validate(input)
}

func (s *updateSet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

func (s *updateSet) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.running == 0 && s.rest != nil {
		close(s.rest)
		s.rest = nil
	}
}

// UpdatesDone waits until all updates that the workflow has taken are answered. Call it before the workflow returns or
// continues as new. An update that is accepted after UpdatesDone fails if the workflow then returns. If ctx ends first,
// UpdatesDone returns the cause.
func UpdatesDone(ctx context.Context) error {
	set := updatesOf(ctx)
	for {
		set.mu.Lock()
		if set.running == 0 {
			set.mu.Unlock()
			return nil
		}
		if set.rest == nil {
			set.rest = make(chan struct{})
		}
		rest := set.rest
		set.mu.Unlock()
		select {
		case <-rest:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
