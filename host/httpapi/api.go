// Package httpapi is the HTTP API of a host, under /v1, with its OpenAPI description at /openapi.json. An answer of
// 200, 201 or 202 means that the requested change is durable. Errors are problem documents (RFC 9457) with a stable
// code.
//
// Every request for workflows and runs takes the parameter namespace; without it, it is for the default namespace.
//
// Every request except deliveries to hooks needs a token with the right scopes; the table scopes lists them. Requests
// of foreign web pages, and requests under a name that is not the server's, are refused. A program that knows its
// callers identifies them by Access.Authenticate.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/page"
)

// apiVersion is the version of the API in its description.
const apiVersion = "1"

// maxBodyBytes bounds a request other than an upload: an input, and the JSON around it.
const maxBodyBytes = 2 * abi.MaxPayloadBytes

// API is the HTTP API of a host. It is an http.Handler.
type API struct {
	h              *host.Host
	access         Access
	mux            *http.ServeMux
	misses         *rate.Limiter  // of deliveries to unknown tokens
	rates          *rates         // of requests, by caller
	namespaceRates namespaceRates // of requests, by namespace
	denials        *rates         // of requests without a valid token, by address
	streams        streams
	polls          streams   // of workers
	refusals       *refusals // in the audit log
	brake          admission.RefusalDelay[string]
	backlog        *backlog // of answers
	bodies         *bodies  // of requests
	makers         makers
	turn           atomic.Uint32 // of the other hosts of the cluster
	schemas        map[string]bool
	draining       atomic.Bool
	clock          clock.Clock // for checking again whether callers are still admitted
	withPage       bool
	pageOpts       []page.Option
	page           *page.Page // nil = none

	interpreter func(context.Context) ([]byte, error) // of definitions
	prefix      string                                // of all paths; empty for none
	metrics     http.Handler                          // nil: there are no metrics
	build       Build

	parameters map[string]parameters // of the query, by pattern; patterns that take any parameter are absent
}

// New returns the API of a host for the callers that access admits.
func New(h *host.Host, access Access, opts ...Option) *API {
	access = access.withDefaults()
	s := &API{h: h, access: access, mux: http.NewServeMux(), misses: rate.NewLimiter(missesPerSecond, missesAtOnce),
		rates: newRates(access.Rate, 2*access.Rate), denials: newRates(denialsPerSecond, denialsAtOnce),
		streams: newStreams(access.Streams, "output", h.Shared), polls: newStreams(access.Streams, "handlers", h.Shared),
		refusals: newRefusals(), backlog: newBacklog(maxBacklog), bodies: newBodies(maxBodies), makers: make(makers, maxMakers),
		clock: clock.System(), interpreter: builtIn, build: builtAs()}
	for _, o := range opts {
		o(s)
	}
	if s.withPage {
		s.makePage()
	}
	config := huma.DefaultConfig("wfhost", apiVersion)
	config.DocsPath = ""
	config.CreateHooks = nil // no links to schemas in answers: the document has them
	if s.prefix != "" {
		config.Servers = []*huma.Server{{URL: s.prefix}}
	}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	api := humago.New(guarded{s}, config)
	s.registerBuild(api)
	s.registerHosts(api)
	s.registerNamespaces(api)
	s.registerWorkflows(api)
	s.registerDefinitions(api)
	s.registerVersions(api)
	s.registerUpgrades(api)
	s.registerExport(api)
	s.registerSchemas(api)
	s.registerRuns(api)
	s.registerEvents(api)
	s.registerActions(api)
	s.registerChanges(api)
	s.registerSignals(api)
	s.registerUpdates(api)
	s.registerOutput(api)
	s.registerRetention(api)
	s.registerLimits(api)
	s.registerHandlerLimits(api)
	s.registerStartWindows(api)
	s.registerSchedules(api)
	s.registerHandlers(api)
	s.registerCopy(api)
	s.registerTokens(api)
	s.registerAudit(api)
	describeImport(api)
	describeBackup(api)
	describeNamespace(api)
	describeTokens(api)
	describe(api)
	s.parameters = parametersOf(api)
	describeProbes(api)
	s.schemas = schemasOf(api)
	mux := guarded{s}
	mux.HandleFunc(deliverPattern, s.deliver)
	mux.HandleFunc(backupPattern, s.backup)
	mux.HandleFunc(importPattern, s.importRun)
	mux.HandleFunc(metricsPattern, s.scraped)
	mux.HandleFunc(healthPattern, healthy)
	mux.HandleFunc(readyPattern, s.ready)
	return s
}

// Drain refuses requests that change data from now on, with 503 and Retry-After: the server is about to stop, and
// another one will answer them. Reads are answered as before, and /readyz answers 503.
func (s *API) Drain() { s.draining.Store(true) }

// ServeHTTP answers a request.
func (s *API) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w, r, end := s.backlog.pace(rw, r)
	defer end()
	defer s.bodies.enter(r, s.siteOf(r))()
	harden(w.Header())
	whole := r // with the prefix, which the page has, too
	if s.prefix != "" {
		r = within(r, s.prefix)
		if r == nil {
			writeProblem(w, problem(http.StatusNotFound, "not_found", "there is nothing outside of %s", s.prefix))
			return
		}
	}
	r, done := s.fromPeer(w, r)
	if done {
		return
	}
	peer := passedOn(r) != nil // the host that it came to has checked it
	forPage := s.page != nil && !ownPath(r.URL.Path)
	if forPage { // other sites link to pages, and the page checks the origin of changes itself
		if !peer && s.checkHost(w, r) {
			return
		}
	} else if !peer && s.checkOrigin(w, r) {
		return
	}
	if !peer && s.draining.Load() && changes(r) {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, problem(http.StatusServiceUnavailable, "draining", "the server is about to end; try again"))
		return
	}
	if forPage {
		if !peer && s.passPage(w, whole, r) {
			return
		}
		s.page.ServeHTTP(w, whole)
		return
	}
	if s.unrouted(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

// changes reports whether a request may change data. Queries do not, whatever their method.
func changes(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return false
	}
	parts := strings.Split(r.URL.Path, "/")        // "", "v1", "runs", id, "queries", name
	if len(parts) == 7 && parts[2] == "handlers" { // the host waits for the results of workers, whose attempts began before
		return false
	}
	return len(parts) != 6 || parts[2] != "runs" || parts[4] != "queries"
}

// Problem is the error document.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // stable, always there: not_found, conflict, terminal, invalid, rejected, limit, mismatch, …
	Run    any    `json:"run,omitempty"`
	// Faults lists the violations of the workflow's schema, with the code schema, or the errors of a definition, with
	// the code definition.
	Faults []Fault `json:"faults,omitempty"`
	// Update is the failed update, with the code update_failed.
	Update *host.Update `json:"update,omitempty"`
	// Failure is the error of the workflow or the host: of a run with the code failed, of an update with
	// update_failed.
	Failure *abi.Error `json:"failure,omitempty"`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the content type of a problem document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, code, format string, args ...any) error {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code,
		Detail: fmt.Sprintf(format, args...)}
}

// kinds maps the host's errors to problems.
var kinds = []struct {
	err    error
	status int
	code   string
}{
	{host.ErrLeaseLost, http.StatusConflict, "lease_lost"},
	{host.ErrTerminal, http.StatusConflict, "terminal"},
	{host.ErrConflict, http.StatusConflict, "conflict"},
	{host.ErrNotFound, http.StatusNotFound, "not_found"},
	{host.ErrRejected, http.StatusBadRequest, "rejected"},
	{host.ErrDiskFull, http.StatusInsufficientStorage, "disk_full"}, // is ErrBusy, too, so it comes first
	{host.ErrBusy, http.StatusTooManyRequests, "busy"},
	{host.ErrLimit, http.StatusRequestEntityTooLarge, "limit"},
	{host.ErrInvalid, http.StatusBadRequest, "invalid"},
	{host.ErrMismatch, http.StatusConflict, "mismatch"},
	{host.ErrCopy, http.StatusConflict, "copy"},
	{host.ErrFenced, http.StatusServiceUnavailable, "fenced"},
	{host.ErrClosed, http.StatusServiceUnavailable, "closed"},
	{host.ErrStoreFailed, http.StatusServiceUnavailable, "store_failed"},
	{host.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
}

// failed converts an error of the host to a problem.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*host.SchemaError](err); ok {
		p := &Problem{Type: "about:blank", Title: http.StatusText(http.StatusUnprocessableEntity),
			Status: http.StatusUnprocessableEntity, Code: "schema", Detail: e.Error()}
		for _, f := range e.Faults {
			p.Faults = append(p.Faults, Fault{Pointer: f.Pointer, Message: f.Message})
		}
		return p
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			if k.err == host.ErrUnavailable { // callers need not know where the database is; the log does
				return problem(k.status, k.code, "the store of the server cannot be reached, or has not answered; try again")
			}
			return problem(k.status, k.code, "%v", err)
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem(http.StatusServiceUnavailable, "cancelled", "%v", err)
	}
	return problem(http.StatusInternalServerError, "internal", "%v", err)
}

// failedFor is like failed. For an ElsewhereError, it also names the namespace that has the run, if the caller may
// read that namespace.
func failedFor(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*host.ElsewhereError](err); ok && callerOf(ctx).Allows(host.ScopeRead, e.Namespace) {
		return problem(http.StatusConflict, "conflict", "%s", e.Detail())
	}
	return failed(err)
}
