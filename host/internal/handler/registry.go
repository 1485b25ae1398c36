package handler

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/store"
)

// maxPerHandler and maxHandlers bound the calls of handlers that go on at a time: of one handler, so that a slow
// one cannot take everything, and of all. Where there are several namespaces, each has a part of both: see spaceShare.
const (
	maxPerHandler = 64
	maxHandlers   = 1024
)

// Registry is the handlers by name. It is safe for concurrent use.
type Registry struct {
	all     *places // for calls of all handlers together
	watch   *quarantine.Watch
	limiter Limiter
	shared  func() bool

	mu         sync.Mutex // guards what follows; nothing is called, and nothing else is locked, while it is held
	performers map[string]performer
	rooms      map[string]*places // for calls of each handler
}

// performer performs the attempts of a handler: one of both is set.
type performer struct {
	local  Func
	remote Remote
}

// NewRegistry returns a Registry without handlers, whose calls are watched, and limited. A nil watch watches nothing, and a
// nil limiter limits nothing. Shared reports whether calls for other namespaces than the default one may come; if it is nil,
// that is known with the first one.
func NewRegistry(w *quarantine.Watch, l Limiter, shared func() bool) *Registry {
	return &Registry{watch: w, limiter: l, shared: shared, all: newPlaces(maxHandlers, shared), performers: map[string]performer{},
		rooms: map[string]*places{}}
}

// Handle registers a handler, in place of one that has the name.
func (r *Registry) Handle(name string, f Func) { r.handle(name, performer{local: f}) }

// HandleRemote registers a handler whose attempts are performed elsewhere, in place of one that has the name.
func (r *Registry) HandleRemote(name string, m Remote) { r.handle(name, performer{remote: m}) }

func (r *Registry) handle(name string, p performer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.performers[name] = p
}

func (r *Registry) performer(name string) performer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.performers[name]
}

// Handler returns the function that has a name, nil if none has it.
func (r *Registry) Handler(name string) Func { return r.performer(name).local }

// Handled reports whether a handler has a name.
func (r *Registry) Handled(name string) bool {
	p := r.performer(name)
	return p.local != nil || p.remote != nil
}

// Admit waits for room for a call of a handler by a run, in turn with other namespaces, and until the run is not held. The
// room is the caller's until leave is called.
func (r *Registry) Admit(ctx context.Context, name string, run store.RunKey) (leave func(), err error) {
	subject := r.watch.Subject(uint32(run.Namespace), run.ID)
	if err := subject.Wait(ctx); err != nil {
		return nil, err
	}
	own := r.room(name)
	if err := own.enter(ctx, run.Namespace); err != nil {
		return nil, err
	}
	if err := r.all.enter(ctx, run.Namespace); err != nil {
		own.leave(run.Namespace)
		return nil, err
	}
	subject.Begin()
	return func() { subject.End(); r.all.leave(run.Namespace); own.leave(run.Namespace) }, nil
}

func (r *Registry) room(name string) *places {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms[name] == nil {
		r.rooms[name] = newPlaces(maxPerHandler, r.shared)
	}
	return r.rooms[name]
}
