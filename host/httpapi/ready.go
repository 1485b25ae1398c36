package httpapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

const (
	healthPattern = "GET /healthz"
	readyPattern  = "GET /readyz"
)

// Statuses of a Readiness.
const (
	// Starting: the host is being opened. It becomes ready by itself.
	Starting = "starting"
	// Ready: requests are answered.
	Ready = "ready"
	// Draining: the server is about to end, and answers only what reads.
	Draining = "draining"
	// Failed: the store has failed, or could not be opened. An operator has to act.
	Failed = "failed"
)

// Readiness is the answer of GET /readyz: 200 if Status is Ready, and 503 otherwise. It is public, so it names no
// folders.
type Readiness struct {
	Status string `json:"status" enum:"starting,ready,draining,failed"`
	Detail string `json:"detail,omitempty" doc:"a sentence for people"`
	// Stage is the current stage of the start.
	Stage string `json:"stage,omitempty" enum:"opening,raising,recovering" doc:"while it starts"`
	Done  *int   `json:"done,omitempty" doc:"partitions that are raised or recovered"`
	Total *int   `json:"total,omitempty" doc:"of so many"`
	// DiskFull says that a server that is ready refuses new data: see Config.DiskReserve.
	DiskFull bool `json:"disk_full,omitempty" doc:"nothing new is accepted, since the disk is nearly full"`
}

// healthy answers that the process lives.
func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// ready answers whether the server takes requests.
func (s *API) ready(w http.ResponseWriter, r *http.Request) { writeReadiness(w, s.readiness(r)) }

// readiness returns the state of the server: ready if the store can be read and written, and Drain was not called. A
// server with a nearly full disk is ready, since runs go on and sending callers away would not help.
func (s *API) readiness(r *http.Request) *Readiness {
	if err := s.h.Failure(); err != nil {
		return broken("the store has failed, and nothing is accepted any more", err)
	}
	if s.draining.Load() {
		return &Readiness{Status: Draining, Detail: "the server is about to end"}
	}
	for _, err := range s.h.Runs(r.Context(), host.Query{Limit: 1}) {
		if err != nil {
			return broken("the store cannot be read", err)
		}
	}
	if s.h.Clustered() {
		if _, err := s.h.Hosts(); err != nil {
			return broken("the server is not one of its cluster at the moment", err)
		}
	}
	if disk, err := s.h.Disk(); err == nil && disk.Full { // runs go on, and requests that read, end and delete them are accepted
		return &Readiness{Status: Ready, DiskFull: true, Detail: fmt.Sprintf(
			"the disk is nearly full: %d bytes are free, %d are reserved; nothing new is accepted", disk.Free, disk.Reserve)}
	}
	return &Readiness{Status: Ready}
}

// broken returns the readiness of a server whose store has failed.
func broken(what string, err error) *Readiness {
	return &Readiness{Status: Failed, Detail: fmt.Sprintf("%s (%s); the server's log says more", what, cause(err))}
}

// cause returns the part of an error that is public: the system's message about a file without its name, or which
// error of the host it is.
func cause(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err.Error()
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.err.Error()
		}
	}
	return "an error of the store"
}

// writeReadiness answers GET /readyz.
func writeReadiness(w http.ResponseWriter, r *Readiness) {
	w.Header().Set("Content-Type", "application/json")
	if r.Status != Ready {
		if r.Status != Failed {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = Encode(w, r, "") // the client is gone
}

// describeProbes documents the endpoints for supervisors. They take any parameter, since some supervisors send their
// own.
func describeProbes(api huma.API) {
	body := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Readiness](), true, "")
	is := map[string]*huma.MediaType{"application/json": {Schema: body}}
	problems := map[string]*huma.MediaType{"application/problem+json": {Schema: api.OpenAPI().Components.Schemas.Schema(
		reflect.TypeFor[Problem](), true, "")}}
	ready := &huma.Operation{OperationID: "ready", Method: http.MethodGet, Path: "/readyz",
		Summary: "Say whether the server takes requests, or what keeps it from that",
		Responses: map[string]*huma.Response{"200": {Description: "it is ready", Content: is},
			"503": {Description: "it is starting or draining, or has failed", Content: is}}}
	health := &huma.Operation{OperationID: "health", Method: http.MethodGet, Path: "/healthz", Summary: "Say that the process lives",
		Responses: map[string]*huma.Response{"200": {Description: "it lives",
			Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}}}}
	for _, op := range []*huma.Operation{ready, health} {
		for _, status := range []int{400, 403, 404, 421, 429, 500} {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: meanings[status], Content: problems}
		}
		api.OpenAPI().AddOperation(op)
	}
}
