package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/internal/site"
)

// Access says who may call a server. The zero value admits callers with a token that the host has created.
type Access struct {
	// Local is the text of a token that allows everything, for users who can read the server's files; empty for none.
	Local string
	// Open admits every caller to everything, without a token.
	Open bool
	// Authenticate identifies the caller of a request, in place of tokens, for a program that knows its callers by a
	// session or a certificate. The token that it returns needs scopes, and an ID or a name for the audit log; without
	// a namespace it is for all namespaces. An error is answered by 401 with its text. For a request in progress it is
	// called again every 5 s, without the body. The request is cut off when it returns an error or a token that allows
	// less. It is not called for public endpoints: /healthz, /readyz, the API description, and hooks, whose paths hold
	// tokens of their own. It must be safe for concurrent use. It may trust cookies: requests of foreign origins are
	// refused before. Default: tokens of the host.
	Authenticate func(*http.Request) (host.Token, error)
	// Hosts are the names of the server, beside IP addresses and localhost. Requests under other names are refused,
	// such as those of a page whose name was made to point to this machine.
	Hosts []string
	// AnyHost accepts every name: with TLS the certificate names the server.
	AnyHost bool
	// Origins are the origins of web pages that may call the server, such as https://app.example.com.
	Origins []string
	// Proxy says that a proxy in front of the server writes the address of the caller into X-Forwarded-For.
	Proxy bool
	// Rate is the number of requests per second for each caller, with bursts of twice as many. Default: no limit. It
	// does not apply to the local token.
	Rate float64
	// Streams is how many clients may follow output at a time. Default 1,000. One caller may have a quarter of them,
	// except the local token. If there are several namespaces, all tokens of one together may have half. As many
	// workers may wait for attempts.
	Streams int
	// Audit is called for each request that changed data or was denied. Default: nothing is recorded.
	Audit func(Record)
	// Records opens the audit log for reading: lines of JSON, oldest first; refused selects the log of refused
	// requests. Default: the log cannot be read.
	Records func(refused bool) (io.ReadCloser, error)
}

// defaultStreams is the default of Access.Streams. Each stream holds a connection, a goroutine and some kilobytes.
const defaultStreams = 1000

func (a Access) withDefaults() Access {
	if a.Streams == 0 {
		a.Streams = defaultStreams
	}
	if a.Audit == nil {
		a.Audit = func(Record) {}
	}
	return a
}

// caller identifies who makes a request.
type caller struct {
	host.Token
	name    string // for the limits, and for the audit log if there is no address
	address string // of an unauthenticated caller; its name is the part of the address that counts for limits
	in      string // the namespace that the request names, empty for the default one
	exempt  bool   // from limits of rate and streams: the local token
}

// public is the scope of endpoints without a token: endpoints that reveal nothing, and hooks, whose paths hold tokens
// of their own.
const public host.Scope = ""

const deliverPattern = "POST /v1/hooks/{token}"

// scopes has the scope of each endpoint. Registering an endpoint that is not in the table panics.
var scopes = map[string]host.Scope{
	healthPattern: public, readyPattern: public, deliverPattern: public,
	"GET /openapi.json": public, "GET /openapi.yaml": public, "GET /openapi-3.0.json": public, "GET /openapi-3.0.yaml": public,
	"GET /schemas/{schema}": public,

	"GET /v1/version": host.ScopeRead, "GET /v1/hosts": host.ScopeRead,
	"GET /v1/namespaces": host.ScopeRead, quotaPattern: host.ScopeAdmin,
	"GET /v1/workflows": host.ScopeRead, "GET /v1/workflows/{workflow}": host.ScopeRead,
	"GET /v1/workflows/{workflow}/schemas": host.ScopeRead, "GET /v1/workflows/{workflow}/openapi.json": host.ScopeRead,
	"GET " + eventsPath: host.ScopeRead,
	"GET /v1/runs":      host.ScopeRead, "GET /v1/runs:count": host.ScopeRead, "GET /v1/runs/{id}": host.ScopeRead,
	"GET /v1/runs/{id}/journal": host.ScopeRead, "GET /v1/runs/{id}/result": host.ScopeRead,
	"GET /v1/runs/{id}/logs": host.ScopeRead, "GET /v1/runs/{id}/output": host.ScopeRead, "GET /v1/timers": host.ScopeRead,
	"GET /v1/runs/{id}/queries/{name}": host.ScopeRead, "POST /v1/runs/{id}/queries/{name}": host.ScopeRead,

	startPattern: host.ScopeRun, "POST /v1/runs/{id}/signals/{name}": host.ScopeRun,
	"POST " + updatesPath: host.ScopeRun, "GET " + updatePath: host.ScopeRun, // the sender gets the answer

	"POST /v1/runs/{id}/cancel": host.ScopeOperate, "POST /v1/runs/{id}/terminate": host.ScopeOperate,
	"POST /v1/runs/{id}/pause": host.ScopeOperate, "POST /v1/runs/{id}/unpause": host.ScopeOperate,
	"POST /v1/runs/{id}/wake": host.ScopeOperate, "POST /v1/runs/{id}/retry": host.ScopeOperate,
	"POST /v1/runs/{id}/restart": host.ScopeOperate, "DELETE /v1/runs/{id}": host.ScopeOperate,
	"POST /v1/runs:bulk": host.ScopeOperate,

	exportPattern: host.ScopeOperate, // and read: audited, since it takes a whole run out of the host
	movePattern:   host.ScopeOperate, "POST /v1/runs/{id}/take-back": host.ScopeOperate,
	importPattern: host.ScopeUpload, // and operate: it brings code, and a run that continues

	definePattern: host.ScopeUpload, // and operate, to migrate runs
	checkPattern:  host.ScopeUpload, "POST /v1/workflows/{workflow}/migrate": host.ScopeOperate,
	uploadPattern: host.ScopeUpload, "DELETE /v1/workflows/{workflow}/versions/{version}": host.ScopeUpload,

	"GET /v1/retention": host.ScopeRead, "POST /v1/retention:sweep": host.ScopeOperate,
	"PUT /v1/retention/{workflow}": host.ScopeAdmin, "DELETE /v1/retention/{workflow}": host.ScopeAdmin,

	"GET /v1/limits": host.ScopeRead, "GET " + limitsPath: host.ScopeRead,
	"PUT " + limitsPath: host.ScopeOperate, "DELETE " + limitsPath: host.ScopeOperate,
	"GET /v1/handler-limits": host.ScopeRead, "GET " + handlerLimitsPath: host.ScopeRead,
	"PUT " + handlerLimitsPath: host.ScopeOperate, "DELETE " + handlerLimitsPath: host.ScopeOperate,
	"GET /v1/start-windows":  host.ScopeRead,
	"PUT " + startWindowPath: host.ScopeOperate, "DELETE " + startWindowPath: host.ScopeOperate,

	"GET /v1/schedules": host.ScopeRead, "GET /v1/schedules/{schedule}": host.ScopeRead,
	"GET /v1/schedules/{schedule}/next": host.ScopeRead, "POST /v1/schedules/{schedule}/trigger": host.ScopeRun,
	"POST /v1/schedules": host.ScopeOperate, "PUT /v1/schedules/{schedule}": host.ScopeOperate, // and run
	"POST /v1/schedules/{schedule}/backfill": host.ScopeOperate, // and run
	"POST /v1/schedules/{schedule}/pause":    host.ScopeOperate, "POST /v1/schedules/{schedule}/resume": host.ScopeOperate,
	"DELETE /v1/schedules/{schedule}": host.ScopeOperate,

	"GET /v1/handlers": host.ScopeRead, takePattern: host.ScopeWork,
	attemptPattern + "/heartbeat": host.ScopeWork, attemptPattern + "/complete": host.ScopeWork,
	attemptPattern + "/fail": host.ScopeWork, attemptPattern + "/release": host.ScopeWork,

	backupPattern: host.ScopeAdmin, "GET /v1/copy": host.ScopeRead, "POST /v1/copy:release": host.ScopeAdmin,

	auditPattern: host.ScopeAdmin, metricsPattern: host.ScopeRead,

	drainPattern: host.ScopeOperate, undrainPattern: host.ScopeOperate,

	"GET /v1/tokens": host.ScopeAdmin, "POST /v1/tokens": host.ScopeAdmin, "DELETE /v1/tokens/{token}": host.ScopeAdmin,
}

const (
	uploadPattern = "PUT /v1/workflows/{workflow}/versions"
	backupPattern = "POST /v1/backup"
	listPattern   = "GET /v1/runs"
	takePattern   = "GET /v1/handlers/{handler}/attempts"
	// attemptPattern is the prefix of the patterns by which a worker reports on an attempt that it has taken.
	attemptPattern = "POST /v1/handlers/{handler}/attempts/{lease}"
	quotaPattern   = "PUT /v1/namespaces/{name}"
)

// also has the second scope of endpoints that need two. The answer of a check shows what the module does with the
// journals that it replays, so it needs read. An export shows a whole run. An import brings code and a run.
var also = map[string]host.Scope{checkPattern: host.ScopeRead, exportPattern: host.ScopeRead,
	movePattern: host.ScopeRead, importPattern: host.ScopeOperate}

// everywhere has the endpoints without a namespace. The caller's token decides what they show or change.
var everywhere = map[string]bool{"GET /v1/version": true, "GET /v1/hosts": true,
	"GET /v1/namespaces": true, "GET /v1/tokens": true, "POST /v1/tokens": true,
	"DELETE /v1/tokens/{token}": true, "GET /v1/copy": true}

// whole has the endpoints for all namespaces at once. A token of one namespace is not enough.
var whole = map[string]bool{backupPattern: true, auditPattern: true, metricsPattern: true, quotaPattern: true,
	"POST /v1/copy:release": true, drainPattern: true, undrainPattern: true}

// guarded is the mux for huma. It calls each handler only for callers with the scope of its pattern.
type guarded struct{ *API }

// HandleFunc registers a handler. It panics if the pattern has no scope.
func (g guarded) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	scope, ok := scopes[pattern]
	if !ok {
		panic("endpoint without a scope: " + pattern)
	}
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		at, asked := &answered{ResponseWriter: w}, r
		c, r, err := g.admit(w, r, pattern, scope)
		cut := true
		defer func() { // also if the handler panics, which cuts the answer
			if passedOn(r) == nil { // the host that it came to records it
				g.audit(at, r, pattern, scope, c, cut)
			}
		}()
		if p, ok := w.(*paced); err == nil && ok && wholeLists[pattern] {
			p.made, err = g.makers.enter(r.Context())
			if err == nil {
				defer p.made()
			}
		}
		if err != nil {
			g.hold(r, c, err)
			writeProblem(at, err)
		} else {
			in, leave := g.attend(asked, r, scope, c)
			defer leave()
			if r.Method == http.MethodGet || r.Method == http.MethodHead { // answers of other methods report what was done
				at.of = in.Context()
			}
			g.handle(at, in, pattern, c, handler)
			if at.cut { // the answer is incomplete: only an abort tells the receiver
				panic(http.ErrAbortHandler)
			}
		}
		cut = false
	})
}

// handle calls the handler, or passes the request on to the host that owns its run.
func (g guarded) handle(w http.ResponseWriter, r *http.Request, pattern string, c *caller, handler http.HandlerFunc) {
	owner, other, err := g.ownerOf(r, pattern)
	if err == nil && other {
		err = g.passOn(w, r, c, &owner)
	} else if err == nil {
		handler(w, r)
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, failed(err))
	}
}

// hold delays the answer to a caller over its rate, so that a caller that retries at once takes little from other
// callers.
func (s *API) hold(r *http.Request, c *caller, err error) {
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Status != http.StatusTooManyRequests {
		return
	}
	key := s.siteOf(r)
	if c != nil {
		key = c.name
	}
	s.brake.Delay(r.Context(), key, 0)
}

// callerKey is the context key of the request's caller.
type callerKey struct{}

// callerOf returns the caller of the request.
func callerOf(ctx context.Context) *caller {
	return ctx.Value(callerKey{}).(*caller) //nolint:forcetypeassert // admit has set it
}

// admit checks that the caller may make a request. It returns the request with the caller and the namespace in its
// context.
func (s *API) admit(w http.ResponseWriter, r *http.Request, pattern string, scope host.Scope) (*caller, *http.Request, error) {
	c, err := s.identify(w, r, scope)
	if err != nil {
		return c, r, err
	}
	here := passedOn(r) == nil // else the host that it came to has counted it
	if here && !c.exempt && !s.rates.allow(c.name) {
		w.Header().Set("Retry-After", "1")
		return c, r, problem(http.StatusTooManyRequests, "busy", "more than %g requests a second; try again later", s.access.Rate)
	}
	name, err := namespaceOf(r)
	if err != nil {
		return c, r, err
	}
	if whole[pattern] && c.Namespace != "" {
		return c, r, problem(http.StatusForbidden, "scope", "this is for the whole server, %s is for the namespace %q", c.title(),
			c.Namespace)
	}
	c.in = name
	if scope != public && !c.allowed(scope, name, everywhere[pattern] || whole[pattern]) {
		return c, r, problem(http.StatusForbidden, "scope", "%s", c.refusal(scope, name))
	}
	if second, ok := also[pattern]; ok && !c.allowed(second, name, false) {
		return c, r, problem(http.StatusForbidden, "scope", "%s", c.refusal(second, name))
	}
	if err := s.checkParameters(r, pattern); err != nil {
		return c, r, err
	}
	if err := checkContentType(r, pattern); err != nil {
		return c, r, err
	}
	allowBody(r, pattern)
	sentBy(r, c)
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
	out, err := s.withNamespace(r, name)
	if err != nil {
		return c, r, err
	}
	if here && !c.exempt && scope != public && !everywhere[pattern] && !whole[pattern] { // a delivery counts once its hook is found
		err = s.namespaceRates.check(w, out)
	}
	return c, out, err
}

// allowed reports whether a caller may make calls of a scope in a namespace. Endpoints in everywhere need the scope in
// any one namespace.
func (c *caller) allowed(scope host.Scope, namespace string, everywhere bool) bool {
	if everywhere {
		namespace = c.Namespace
	}
	return c.Allows(scope, namespace)
}

func (c *caller) refusal(scope host.Scope, namespace string) string {
	if namespace == "" {
		namespace = "default"
	}
	if c.Namespace != "" && c.Namespace != namespace {
		return fmt.Sprintf("%s is for the namespace %q, not for %q", c.title(), c.Namespace, namespace)
	}
	return fmt.Sprintf("this needs a token with the scope %s; %s has %s", scope, c.title(), joinScopes(c.Scopes))
}

// title names the token of a caller. A caller that an embedding program has admitted may have none.
func (c *caller) title() string {
	if c.ID == "" {
		return "the caller"
	}
	return "the token " + c.ID
}

func joinScopes(scopes []host.Scope) string {
	var names []string
	for _, s := range scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// howToGet says how to get a token.
const howToGet = "on the server's machine `wfhost token` prints one, and `wfhost tokens create` makes others; " +
	"send it as the header Authorization: Bearer TOKEN, or give it to wfhost in WFHOST_TOKEN"

// identify returns the caller of a request. Callers without a token may call public endpoints, and everything of an
// open server.
func (s *API) identify(w http.ResponseWriter, r *http.Request, scope host.Scope) (*caller, error) {
	stranger := &caller{name: s.siteOf(r), address: s.addressOf(r)}
	if p := passedOn(r); p != nil {
		return &caller{Token: p.Token, name: p.Name, address: p.Address, exempt: p.Exempt}, nil
	}
	if scope == public {
		return stranger, nil
	}
	if s.access.Authenticate != nil {
		t, err := s.access.Authenticate(r)
		if err != nil {
			return stranger, problem(http.StatusUnauthorized, "unauthorized", "%v", err)
		}
		return &caller{Token: t, name: "caller " + cmp.Or(t.ID, t.Name)}, nil
	}
	if s.access.Open {
		stranger.Scopes, stranger.exempt = host.Scopes, true
		return stranger, nil
	}
	err := errors.New("a token is needed")
	if text, ok := bearer(r); ok {
		var c *caller
		c, err = s.holder(r.Context(), text)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, host.ErrUnauthorized) {
			return stranger, failed(err)
		}
	}
	if !s.denials.allow(stranger.name) {
		w.Header().Set("Retry-After", "1")
		return nil, problem(http.StatusTooManyRequests, "busy", "too many requests without a token that is accepted; try again later")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="wfhost"`)
	return stranger, problem(http.StatusUnauthorized, "unauthorized", "%v: %s", err, howToGet)
}

// holder returns the holder of a token. host.ErrUnauthorized if the token is unknown.
func (s *API) holder(ctx context.Context, text string) (*caller, error) {
	if s.isLocal(text) {
		return &caller{Token: host.Token{ID: "local", Scopes: host.Scopes}, name: "local", exempt: true}, nil
	}
	t, err := s.h.Tokens().Authenticate(ctx, text)
	return &caller{Token: t, name: "token " + t.ID}, err
}

// bearer returns the token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// isLocal compares hashes in constant time, so that the time reveals nothing about the token.
func (s *API) isLocal(text string) bool {
	a, b := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(s.access.Local))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && s.access.Local != ""
}

// addressOf returns the address of a caller without the port.
func (s *API) addressOf(r *http.Request) string {
	if s.access.Proxy { // the proxy appends the address that it sees; earlier addresses are claims of the caller
		list := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if ip := net.ParseIP(strings.TrimSpace(list[len(list)-1])); ip != nil {
			return ip.String()
		}
	}
	hostname, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return hostname
}

// siteOf returns the part of a caller's address that counts for limits.
func (s *API) siteOf(r *http.Request) string {
	address := s.addressOf(r)
	ip, err := netip.ParseAddr(address)
	if err != nil { // of a listener other than TCP
		return address
	}
	return site.Of(ip).String()
}
