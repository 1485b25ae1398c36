// Package page is the web page of a host: what runs wait for, why they have failed, and the actions that help. It is
// rendered on the server, works without scripts, and can be mounted under any prefix:
//
//	mux.Handle("/wf/", page.New(h, page.WithPrefix("/wf")))
//
// By default people log in with a token of the host, and its scopes decide what they see and may do.
package page

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// Caller is a user of the page, with the scopes and the namespace of the token, but without the token's text.
type Caller struct {
	host.Token
	Name string // for the audit log, such as "token 3f0c9a51d2e7"
}

// Action is an action on the page: every POST of a known user, each attempt to log in, and each view of the audit log.
type Action struct {
	Caller    Caller // the zero Caller before a login
	Scope     host.Scope
	Pattern   string // method and path with placeholders, such as POST /runs/{id}/do/{action}
	Namespace string // empty for the default namespace
	Status    int    // HTTP status; 303 if the action was done
	Changed   bool   // it changed data, or may have
}

// Errors of functions that identify callers.
var (
	// ErrUnknown makes the page ask for a token, or answer 401 without a login.
	ErrUnknown = errors.New("who is asking is not known")
	// ErrTooMany makes the page answer 429.
	ErrTooMany = errors.New("too many requests; try again later")
)

// Option is an option of New.
type Option func(*options)

type options struct {
	prefix   string
	tokens   func(r *http.Request, text string) (Caller, error)
	people   func(r *http.Request) (Caller, error)
	audit    func(r *http.Request, a Action)
	secure   bool
	clock    host.Clock
	rates    *Rates
	key      []byte // nil = none is shared
	auditLog func(refused bool) (io.ReadCloser, error)
}

// WithPrefix mounts the page below a path, such as "/admin/workflows". Default: "/".
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix = strings.TrimSuffix("/"+strings.Trim(prefix, "/"), "/") }
}

// WithTokens replaces the check of tokens. who is called for each request and returns the holder of the token text, or
// host.ErrUnauthorized if the token is invalid or was revoked. Default: the tokens of the host's store.
func WithTokens(who func(r *http.Request, text string) (Caller, error)) Option {
	return func(o *options) { o.tokens = who }
}

// WithAuthentication replaces the login, for programs whose users are logged in already. who is called for each
// request and returns the caller with its scopes, or ErrUnknown.
func WithAuthentication(who func(r *http.Request) (Caller, error)) Option {
	return func(o *options) { o.people = who }
}

// WithoutLogin admits every visitor to everything.
func WithoutLogin() Option {
	return WithAuthentication(func(*http.Request) (Caller, error) {
		return Caller{Token: host.Token{Scopes: host.Scopes}, Name: "anybody"}, nil
	})
}

// WithAudit sets a function that is called for each action, after its answer.
func WithAudit(record func(r *http.Request, a Action)) Option {
	return func(o *options) { o.audit = record }
}

// WithSecureCookie restricts the cookie to HTTPS although requests arrive unencrypted, from a proxy that terminates
// TLS.
func WithSecureCookie() Option { return func(o *options) { o.secure = true } }

// WithClock sets the clock for ages and the ends of sessions. It is for tests; default: the machine's.
func WithClock(c host.Clock) Option { return func(o *options) { o.clock = c } }

// WithKey makes a login hold at all servers with the same key, of at least 32 bytes: sessions are then in cookies, encrypted,
// and last for 12 hours after the login. Default: sessions are in memory, and last until 12 hours after the last request.
func WithKey(key []byte) Option { return func(o *options) { o.key = key } }

// derived returns a key of 32 bytes for a purpose.
func derived(key []byte, purpose string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, "wfhost page "+purpose)
	return h.Sum(nil)
}

// Page is the web page of a host. It is an http.Handler.
type Page struct {
	h        *host.Host
	o        options
	mux      *http.ServeMux
	sessions *sessions
	key      []byte // for the tokens in forms
}

// New returns the page of a host.
func New(h *host.Host, opts ...Option) *Page {
	p := &Page{h: h, mux: http.NewServeMux(), key: make([]byte, 32)}
	p.o = options{clock: clock.System(), audit: func(*http.Request, Action) {}}
	p.o.tokens = func(r *http.Request, text string) (Caller, error) {
		t, err := h.Tokens().Authenticate(r.Context(), text)
		return Caller{Token: t, Name: "token " + t.ID}, err
	}
	for _, o := range opts {
		o(&p.o)
	}
	_, _ = rand.Read(p.key) // never fails
	var seal cipher.AEAD
	if p.o.key != nil {
		copy(p.key, derived(p.o.key, "forms"))
		block, err := aes.NewCipher(derived(p.o.key, "sessions"))
		if err == nil { // a key of 32 bytes is legal
			seal, _ = cipher.NewGCM(block) // and so are blocks of AES
		}
	}
	p.sessions = newSessions(p.o.clock, seal)
	for _, r := range routes {
		p.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { p.answer(w, req, r) })
	}
	return p
}

// route is a route of the page.
type route struct {
	pattern string
	scope   host.Scope // required scope; public: none
	handle  func(*visit) error
}

// auditPattern is the route of the audit log.
const auditPattern = "GET /access/audit"

// public is the scope of what visitors without a login may see: the login and its files.
const public host.Scope = ""

// routes are all routes of the page. A POST needs the token of its form, and is refused across origins.
var routes = []route{
	{"GET /static/{file}", public, (*visit).static},
	{"GET /login", public, (*visit).login},
	{"POST /login", public, (*visit).enter},
	{"POST /logout", public, (*visit).leave},

	{"GET /{$}", host.ScopeRead, (*visit).overview},
	{"GET /runs", host.ScopeRead, (*visit).runs},
	{"GET /bulk/{action}", host.ScopeRead, (*visit).confirmBulk},
	{"POST /bulk/{action}", host.ScopeRead, (*visit).actBulk}, // and the scope of the action
	{"GET /runs/{id}", host.ScopeRead, (*visit).run},
	{"GET /runs/{id}/journal", host.ScopeRead, (*visit).journal},
	{"GET /runs/{id}/log", host.ScopeRead, (*visit).log},
	{"GET /runs/{id}/output", host.ScopeRead, (*visit).output},
	{"GET /runs/{id}/graph", host.ScopeRead, (*visit).graph},
	{"GET /runs/{id}/compare", host.ScopeRead, (*visit).compare},
	{"GET /runs/{id}/entries/{seq}", host.ScopeRead, (*visit).entry},
	{"GET /runs/{id}/entries/{seq}/{part}", host.ScopeRead, (*visit).download},
	{"GET /runs/{id}/do/{action}", host.ScopeRead, (*visit).confirm},
	{"POST /runs/{id}/do/{action}", host.ScopeRead, (*visit).act}, // and the scope of the action

	{"GET /workflows", host.ScopeRead, (*visit).workflows},
	{"GET /workflows/{workflow}", host.ScopeRead, (*visit).workflow},
	{"GET /workflows/{workflow}/start", host.ScopeRun, (*visit).startForm},
	{"POST /workflows/{workflow}/start", host.ScopeRun, (*visit).start},
	{"GET /workflows/{workflow}/versions/{version}/do/{action}", host.ScopeRead, (*visit).confirmVersion},
	{"POST /workflows/{workflow}/versions/{version}/do/{action}", host.ScopeRead, (*visit).actVersion}, // and the action's
	{"GET /upload", host.ScopeUpload, (*visit).uploadForm},
	{"POST /upload", host.ScopeUpload, (*visit).upload},

	{"GET /schedules", host.ScopeRead, (*visit).schedules},
	{"GET /schedules/{schedule}", host.ScopeRead, (*visit).schedule},
	{"GET /schedules/{schedule}/do/{action}", host.ScopeRead, (*visit).confirmSchedule},
	{"POST /schedules/{schedule}/do/{action}", host.ScopeRead, (*visit).actSchedule}, // and the scope of the action
	{"GET /limits", host.ScopeRead, (*visit).limits},
	{"GET /hosts", host.ScopeRead, (*visit).hosts},

	{"GET /access", host.ScopeAdmin, (*visit).access},
	{auditPattern, host.ScopeAdmin, (*visit).audit},
	{"GET /access/tokens", host.ScopeAdmin, (*visit).tokenForm},
	{"POST /access/tokens", host.ScopeAdmin, (*visit).createToken},
	{"GET /access/tokens/{token}/do/{action}", host.ScopeAdmin, (*visit).confirmToken},
	{"POST /access/tokens/{token}/do/{action}", host.ScopeAdmin, (*visit).actToken},
}

// ServeHTTP answers a request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	if p.o.prefix != "" && r.URL.Path == p.o.prefix {
		http.Redirect(w, r, p.o.prefix+"/", http.StatusPermanentRedirect)
		return
	}
	if p.o.prefix != "" {
		http.StripPrefix(p.o.prefix, http.HandlerFunc(p.route)).ServeHTTP(w, r)
		return
	}
	p.route(w, r)
}

// route dispatches a request. Unknown addresses get a page of ours, too.
func (p *Page) route(w http.ResponseWriter, r *http.Request) {
	clean := strings.HasPrefix(r.URL.Path, "/") && path.Clean(r.URL.EscapedPath()) == r.URL.EscapedPath() // the mux would redirect
	if _, pattern := p.mux.Handler(r); pattern == "" || !clean {
		v := &visit{p: p, w: w, r: r, now: p.o.clock.Now()}
		if c, session, err := p.who(r); err == nil {
			v.caller, v.session = c, session
		}
		v.fail(say(http.StatusNotFound, "There is nothing at %.200q.", r.URL.Path))
		return
	}
	p.mux.ServeHTTP(w, r)
}

// harden sets the headers of every answer. Scripts and styles come only from the page's own files, never from data of
// runs and people.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers hide the origin of a POST, which checkOrigin needs
	h.Set("Cache-Control", "no-store")
}

// visit is one request and its caller.
type visit struct {
	p         *Page
	w         http.ResponseWriter
	r         *http.Request
	caller    Caller
	session   string // empty without a login
	ns        *host.Namespace
	namespace string // "default" for the default namespace
	now       time.Time
	status    int
	changed   bool
	form      url.Values // of a POST
}

// answer answers a request to a route.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, to route) {
	v := &visit{p: p, w: w, r: r, now: p.o.clock.Now()}
	err := v.admit(to)
	if err == nil {
		err = to.handle(v)
	}
	if err != nil {
		v.fail(err)
	}
	if r.Method == http.MethodPost || to.pattern == auditPattern { // a view of the audit log is audited, too
		p.o.audit(r, Action{Caller: v.caller, Scope: v.scope(to), Pattern: to.pattern, Namespace: v.given(), Status: v.status,
			Changed: v.changed})
	}
}

// scope returns the required scope: the action's, if the route has one, else the route's.
func (v *visit) scope(to route) host.Scope {
	if a, ok := actions[v.r.PathValue("action")]; ok {
		return a.Scope
	}
	return to.scope
}

// given returns the namespace in the query.
func (v *visit) given() string { return v.r.URL.Query().Get("namespace") }

// admit checks that the caller may make the request.
func (v *visit) admit(to route) error {
	if v.r.Method == http.MethodPost {
		if err := checkOrigin(v.r); err != nil {
			return err
		}
	}
	if to.scope == public {
		return nil
	}
	var err error
	v.caller, v.session, err = v.p.who(v.r)
	if err != nil {
		return err
	}
	name := v.given()
	if name == "" && v.caller.Namespace != "" { // the namespace of the caller's token
		name = v.caller.Namespace
	}
	v.ns, err = v.p.h.Namespace(v.r.Context(), name)
	if err != nil {
		return err
	}
	v.namespace = v.ns.Name()
	if err := v.needs(to.scope); err != nil {
		return err
	}
	if v.r.Method == http.MethodPost && to.pattern != "POST /upload" { // an upload reads its body itself
		return v.readForm()
	}
	return nil
}

// needs returns an error if the caller lacks a scope.
func (v *visit) needs(scope host.Scope) error {
	if v.caller.Allows(scope, v.namespace) {
		return nil
	}
	if v.caller.Namespace != "" && v.caller.Namespace != v.namespace {
		return say(http.StatusForbidden, "Your token is for the namespace %q, not for %q.", v.caller.Namespace, v.namespace)
	}
	var has []string
	for _, s := range v.caller.Scopes {
		has = append(has, string(s))
	}
	return say(http.StatusForbidden, "This needs the scope %s; your token has %s.", scope, strings.Join(has, ", "))
}

// maxForm bounds the body of a POST: a fully escaped payload of 1 MiB, and the other fields.
const maxForm = 4 << 20

// readForm reads the form of a POST and checks its token.
func (v *visit) readForm() error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return say(http.StatusRequestEntityTooLarge, "The form is over the limit of %d bytes.", maxForm)
		}
		return unread(err)
	}
	v.form = v.r.PostForm
	return v.checkToken(v.form.Get("csrf"))
}

// unread says why a form cannot be read, with the status of the body's error if it has one.
func unread(err error) error {
	status := http.StatusBadRequest
	if known, ok := errors.AsType[interface {
		error
		GetStatus() int
	}](err); ok {
		status = known.GetStatus()
	}
	return say(status, "The form cannot be read: %v", err)
}

// sentence is an error that is shown verbatim.
type sentence struct {
	status int
	text   string
}

func say(status int, format string, args ...any) error {
	return &sentence{status, fmt.Sprintf(format, args...)}
}

// Error returns the sentence.
func (s *sentence) Error() string { return s.text }

// statuses maps the host's errors to statuses.
var statuses = []struct {
	err    error
	status int
}{
	{host.ErrNotFound, http.StatusNotFound}, {host.ErrTerminal, http.StatusConflict}, {host.ErrConflict, http.StatusConflict},
	{host.ErrDiskFull, http.StatusInsufficientStorage}, {host.ErrBusy, http.StatusTooManyRequests},
	{host.ErrLimit, http.StatusRequestEntityTooLarge}, {host.ErrRejected, http.StatusBadRequest},
	{host.ErrInvalid, http.StatusBadRequest}, {host.ErrMismatch, http.StatusConflict}, {host.ErrCopy, http.StatusConflict},
	{host.ErrUnauthorized, http.StatusUnauthorized}, {ErrUnknown, http.StatusUnauthorized}, {ErrTooMany, http.StatusTooManyRequests},
	{host.ErrFenced, http.StatusServiceUnavailable}, {host.ErrClosed, http.StatusServiceUnavailable},
	{host.ErrStoreFailed, http.StatusServiceUnavailable}, {host.ErrUnavailable, http.StatusServiceUnavailable},
	{context.Canceled, http.StatusServiceUnavailable},
}

// unavailable replaces the text of host.ErrUnavailable: people need not know where the database is.
const unavailable = "the store of the server cannot be reached, or has not answered; try again"

// statusOf returns the status of an error.
func statusOf(err error) int {
	if s, ok := errors.AsType[*sentence](err); ok {
		return s.status
	}
	for _, k := range statuses {
		if errors.Is(err, k.err) {
			return k.status
		}
	}
	return http.StatusInternalServerError
}

// fail answers with an error. Unknown callers are sent to the login, which returns them to the address that they
// wanted.
func (v *visit) fail(err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized && v.p.o.people == nil && v.r.Method == http.MethodGet && v.r.PathValue("file") == "" {
		v.toLogin()
		return
	}
	text := err.Error()
	if errors.Is(err, host.ErrUnavailable) {
		text = unavailable
	}
	if _, ok := errors.AsType[*sentence](err); !ok && text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	v.write(status, "error", fmt.Sprintf("%d %s", status, http.StatusText(status)), text)
}
