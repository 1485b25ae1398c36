package handler

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/store"
)

// maxPerHandler and maxHandlers limit the calls in flight: of one handler, so that a slow handler cannot take every
// place, and of all handlers. If there are several namespaces, each may use a part of both limits: see spaceShare.
const (
	maxPerHandler = 64
	maxHandlers   = 1024
)

// Registry holds the handlers by name. It is safe for concurrent use.
type Registry struct {
	all     *places // of all handlers together
	watch   *quarantine.Watch
	limiter Limiter
	shared  func() bool

	mu         sync.Mutex // guards the fields below; it is held without calling anything or taking another lock
	performers map[string]performer
	rooms      map[string]*places // of each handler
}

// performer performs the attempts of a handler. Exactly one field is set.
type performer struct {
	local  Func
	remote Remote
}

// NewRegistry returns a Registry without handlers. w watches the calls, and l limits them; either may be nil. shared reports
// whether other namespaces than the default one may make calls; if it is nil, the registry assumes so from their first call on.
func NewRegistry(w *quarantine.Watch, l Limiter, shared func() bool) *Registry {
	return &Registry{watch: w, limiter: l, shared: shared, all: newPlaces(maxHandlers, shared), performers: map[string]performer{},
		rooms: map[string]*places{}}
}

// Handle registers a handler. It replaces a handler of that name.
func (r *Registry) Handle(name string, f Func) { r.handle(name, performer{local: f}) }

// HandleRemote registers a handler whose attempts are performed outside this process. It replaces a handler of that name.
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

// Handler returns the function with a name, and nil if there is none.
func (r *Registry) Handler(name string) Func { return r.performer(name).local }

// Handled reports whether there is a handler with a name.
func (r *Registry) Handled(name string) bool {
	p := r.performer(name)
	return p.local != nil || p.remote != nil
}

// Admit waits until the run is not held and there are places for a call of the handler. Waiting namespaces take turns.
// The caller holds the places until it calls leave.
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
