package handler

import (
	"cmp"
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Config configures a Registry.
type Config struct {
	Watch   *quarantine.Watch // of the calls; nil: none
	Limiter Limiter           // nil: no handler has limits
	// Shared reports whether namespaces other than the default one may make calls. If it is nil, the registry assumes
	// this from their first call on.
	Shared func() bool
	Runs   Runs
	// Background calls a function in a goroutine, with a context that ends with the host. It is required if there is a Limiter.
	Background func(f func(ctx context.Context))
	// Activity counts while attempts wait for places whose attempts are over, because their handlers have not returned
	// yet; nil: it is not counted.
	Activity Activity
	// MaxCallsPerHandler and MaxCalls limit the calls in flight: of one handler, so that a slow handler cannot take
	// every place, and of all handlers. If there are several namespaces, each may use a part of both limits: see
	// spaceShare. Offered limits the attempts of a remote handler that are in memory and wait for a worker, per
	// namespace. 0: the default.
	MaxCallsPerHandler, MaxCalls, Offered int
	// Lingering is how many waiting attempts keep their runs in memory, for a second; 0: the default, negative: none.
	Lingering int
}

// The defaults of Config.
const (
	DefaultMaxCallsPerHandler = 64
	DefaultMaxCalls           = 1024
	DefaultOffered            = 256
)

// Registry holds the handlers by name, and the attempts that wait for a place. A waiting attempt is only a key here:
// its run may leave memory. It is safe for concurrent use.
type Registry struct {
	cfg Config

	mu         sync.Mutex // guards the fields below; while it is held, only Shared, Activity and Background of Config are called
	performers map[string]performer
	all        *places                      // of all handlers of this process together
	byHandler  map[placesKey]*handlerPlaces // none is unused
	asks       asks
	unread     map[store.NamespaceID]*unread
	late       map[*places]bool // those with places whose attempts are over
	lingering  lingering
	draining   bool // attempts get no places
}

// Runs reports to runs about their attempts. Its methods may be called concurrently, and do not block.
type Runs interface {
	// Admitted reports that a waiting attempt has a place.
	Admitted(key store.RunKey, ev run.Admitted)
	// Queued reports that an attempt waits for its turn, after the verdict run.Soon.
	Queued(key store.RunKey, handle int64)
}

// performer performs the attempts of a handler. Exactly one field is set, or none if there is no handler.
type performer struct {
	local  Func
	remote Remote
}

// instances performs the bodies and step functions of workflows. They wait like the attempts of a remote handler:
// some of each namespace are in memory and wait for an instance, and the rest are keys.
type instances struct{ Remote }

// SetDraining does nothing: the runner of guests gives up these attempts.
func (instances) SetDraining(bool) {}

// none reports whether there is no handler.
func (p performer) none() bool { return p.local == nil && p.remote == nil }

// NewRegistry returns a Registry without handlers.
func NewRegistry(cfg Config) *Registry {
	cfg.MaxCallsPerHandler = cmp.Or(cfg.MaxCallsPerHandler, DefaultMaxCallsPerHandler)
	cfg.MaxCalls = cmp.Or(cfg.MaxCalls, DefaultMaxCalls)
	cfg.Offered = cmp.Or(cfg.Offered, DefaultOffered)
	return &Registry{cfg: cfg, all: newPlaces(cfg.MaxCalls, cfg.Shared),
		performers: map[string]performer{run.Instances: {remote: instances{}}}, byHandler: map[placesKey]*handlerPlaces{},
		asks:      asks{packed: newPackedIndex()},
		unread:    map[store.NamespaceID]*unread{},
		late:      map[*places]bool{},
		lingering: lingering{most: cmp.Or(cfg.Lingering, DefaultLingering)}}
}

// Handle registers a handler. It replaces a handler of that name.
func (r *Registry) Handle(name string, f Func) { r.handle(name, performer{local: f}) }

// HandleRemote registers a handler whose attempts are performed outside this process. It replaces a handler of that name.
func (r *Registry) HandleRemote(name string, m Remote) { r.handle(name, performer{remote: m}) }

// handle registers a handler. Attempts that wait for a handler with that name now wait for its places.
func (r *Registry) handle(name string, p performer) {
	r.mu.Lock()
	before := r.performers[name]
	r.performers[name] = p
	var ready []admitted
	if (before.remote == nil) != (p.remote == nil) || before.none() {
		ready = r.moveLocked(name)
	}
	r.mu.Unlock()
	r.tell(ready)
	r.pulse()
}

func (r *Registry) performer(name string) performer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.performers[name]
}

// Handler returns the function with a name, and nil if there is none.
func (r *Registry) Handler(name string) Func { return r.performer(name).local }

// Handled reports whether there is a handler with a name.
func (r *Registry) Handled(name string) bool { return !r.performer(name).none() }
