package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/wfhost/wfhost/host"
)

// Front is an http.Handler for a server that listens before its host is open. Opening takes a while with a large
// store, and minutes with a store of an earlier format. Until the host is open, /healthz answers that the process
// lives, /readyz how far the start is, and every other request gets 503 with the code "starting" and Retry-After.
// After Open, the API answers all requests.
//
// Its methods may be called concurrently.
type Front struct {
	prefix string
	state  atomic.Pointer[Readiness] // until there is an API
	api    atomic.Pointer[API]
	heard  func(Readiness)
}

// NewFront returns a front for an API with the same prefix, see WithPrefix; empty if it has none. heard, if not nil,
// is called with each step of the start; the start waits for it.
func NewFront(prefix string, heard func(Readiness)) *Front {
	f := &Front{prefix: strings.TrimSuffix(prefix, "/"), heard: heard}
	if heard == nil {
		f.heard = func(Readiness) {}
	}
	f.set(&Readiness{Status: Starting, Stage: "opening", Detail: "the store is being opened"})
	return f
}

func (f *Front) set(r *Readiness) {
	f.state.Store(r)
	f.heard(*r)
}

// Events returns the events by which the front follows the progress of host.Open. Join them with others in its Config.
// partitions is how many the host will acquire: host.NumPartitions, or the length of Config.Partitions.
func (f *Front) Events(partitions int) host.Events {
	var mu sync.Mutex // keeps the steps in order
	acquired := 0
	step := func(stage, what string, done, total int) {
		if f.api.Load() == nil {
			f.set(&Readiness{Status: Starting, Stage: stage, Done: &done, Total: &total,
				Detail: fmt.Sprintf("%s: %d of %d partitions", what, done, total)})
		}
	}
	return host.Events{
		StoreRaised: func(done, total int) {
			step("raising", "the store is being raised to the format of this release", done, total)
		},
		PartitionAcquired: func(int) {
			mu.Lock()
			defer mu.Unlock()
			acquired++
			if acquired <= partitions { // later ones are regained by a host that is open
				step("recovering", "runs are being recovered", acquired, partitions)
			}
		},
	}
}

// Open passes all requests to an API from now on.
func (f *Front) Open(api *API) { f.api.Store(api) }

// Fail makes /readyz answer that the host could not be opened, for a process that keeps running without it.
func (f *Front) Fail(err error) { f.set(broken("the store could not be opened", err)) }

// ServeHTTP answers a request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if api := f.api.Load(); api != nil {
		api.ServeHTTP(w, r)
		return
	}
	harden(w.Header())
	state, path := f.state.Load(), strings.TrimPrefix(r.URL.Path, f.prefix)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case reads && path == "/healthz":
		healthy(w, r)
	case reads && path == "/readyz":
		writeReadiness(w, state)
	case state.Status == Failed:
		writeProblem(w, problem(http.StatusServiceUnavailable, "store_failed", "%s", state.Detail))
	case reads && !ownPath(path) && strings.Contains(r.Header.Get("Accept"), "text/html"):
		w.Header().Set("Refresh", "2") // browsers reload by themselves
		http.Error(w, "The server is starting: "+state.Detail+".", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Retry-After", "1")
		writeProblem(w, problem(http.StatusServiceUnavailable, "starting", "the server is starting: %s; try again", state.Detail))
	}
}
