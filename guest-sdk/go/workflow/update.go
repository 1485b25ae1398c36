package workflow

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// updatePrefix begins the name of the signal as which an update comes, and of the query that asks whether it is accepted.
const updatePrefix = "host/update/"

// Updates lists the updates that the workflow takes by OnUpdate, for the module's description. Where it is given, others are
// refused without asking the workflow.
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

// UpdateOf lists an update, as Updates does, whose input is a T. The module's description has a JSON Schema of T, made as
// Register makes that of the workflow's input. An update whose input does not fit is refused.
func UpdateOf[T any](name string) RegisterOption {
	return func(workflow string) {
		Updates(name)(workflow)
		registered.schemas[workflow].updateTypes[name] = reflect.TypeFor[T]()
	}
}

// UpdateSchema lists an update with the JSON Schema (draft 2020-12) of its input, as text, in place of a type.
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

// updateSet is the handlers of one iteration of a run. Its zero value is empty.
type updateSet struct {
	mu      sync.Mutex // guards what follows
	byName  map[string]updateHandler
	running int           // updates that were taken and have no answer
	rest    chan struct{} // closed when running becomes 0; nil if nobody waits for that
}

// UpdateOption is an option of OnUpdate.
type UpdateOption[In any] func(*updateOptions[In])

type updateOptions[In any] struct{ validate func(In) error }

// Validate has fn decide whether an update is accepted. It is called on a copy of the workflow where it waits, as the
// function of a Query is: it may read everything, workflow calls answer ErrNotHere, and what it changes is lost. The
// sender gets its error, and nothing is recorded. When the update is handled, updates that were accepted before it may
// still be in progress.
func Validate[In any](fn func(in In) error) UpdateOption[In] {
	return func(o *updateOptions[In]) { o.validate = fn }
}

// OnUpdate handles the updates of a name from here on. An update is a request to the run whose sender waits for the
// answer: it is accepted durably, then fn is called, in a goroutine of its own, with ctx. fn is a part of the workflow:
// it may sleep and call steps, and updates that come meanwhile are handled beside it. What it returns is recorded, and
// is what the sender gets; so is an error. A panic fails the run.
//
// Until OnUpdate is called, and when ctx has ended, updates of the name are refused; so are inputs that are not allowed
// decoded. A workflow that returns, or continues as new, fails the updates that it has taken and not answered: let it
// wait for them by UpdatesDone, outside of handlers. Those that it has not taken move over to the next iteration. A
// name that is handled twice panics, unless the first ctx has ended.
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
				if ctx.Err() != nil { // not where the journal is full: what was not taken moves over to the next iteration
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

// validate says whether an update is accepted.
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
// continues as new. An update may be accepted after it, and fails if the workflow then returns.
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
