// Package page is the web page of a host: what runs wait for, why they have failed, and the actions that help. It is rendered
// on the server, works without scripts, and can be mounted under any prefix:
//
//	mux.Handle("/wf/", page.New(h, page.WithPrefix("/wf")))
//
// Without an option that says otherwise, people log in with a token of the host, and its scopes decide what they see and may do.
package page

import (
	"context"
	"crypto/rand"
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

// Caller is who uses the page. Its scopes and namespace are those of the token; the token's text is not in it.
type Caller struct {
	host.Token
	Name string // for the audit log, such as "token 3f0c9a51d2e7"
}

// Action is what somebody has asked for by the page: every POST of somebody known, each attempt to log in, and each look at the
// audit log.
type Action struct {
	Caller    Caller // the zero Caller before a login
	Scope     host.Scope
	Pattern   string // method and path with placeholders, such as POST /runs/{id}/do/{action}
	Namespace string // empty for the default one
	Status    int    // of HTTP; 303 if it was done
	Changed   bool   // something was changed, or may have been
}

// Errors of functions that say who a caller is.
var (
	// ErrUnknown has the page ask for a token, or answer 401 if there is no login.
	ErrUnknown = errors.New("who is asking is not known")
	// ErrTooMany has it answer 429.
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
	auditLog func(refused bool) (io.ReadCloser, error)
}

// WithPrefix mounts the page below a path, such as "/admin/workflows". Default: "/".
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix = strings.TrimSuffix("/"+strings.Trim(prefix, "/"), "/") }
}

// WithTokens replaces what says whose token a text is; it is called for each request. It returns host.ErrUnauthorized for a text
// that is none (any more). Default: the tokens of the host's store.
func WithTokens(who func(r *http.Request, text string) (Caller, error)) Option {
	return func(o *options) { o.tokens = who }
}

// WithAuthentication replaces the login: who is called for each request and returns who makes it and with which scopes, or
// ErrUnknown. It is for programs whose users are logged in already.
func WithAuthentication(who func(r *http.Request) (Caller, error)) Option {
	return func(o *options) { o.people = who }
}

// WithoutLogin lets everybody who reaches the page do everything.
func WithoutLogin() Option {
	return WithAuthentication(func(*http.Request) (Caller, error) {
		return Caller{Token: host.Token{Scopes: host.Scopes}, Name: "anybody"}, nil
	})
}

// WithAudit has a function called for each action, when it was answered.
func WithAudit(record func(r *http.Request, a Action)) Option {
	return func(o *options) { o.audit = record }
}

// WithSecureCookie marks the cookie as one for HTTPS although requests come in the clear: from a proxy that has TLS.
func WithSecureCookie() Option { return func(o *options) { o.secure = true } }

// WithClock sets the clock by which ages are shown and sessions end. It is for tests; default: the machine's.
func WithClock(c host.Clock) Option { return func(o *options) { o.clock = c } }

// Page is the web page of a host. It is an http.Handler.
type Page struct {
	h        *host.Host
	o        options
	mux      *http.ServeMux
	sessions *sessions
	key      []byte // of the tokens in forms
}

// New returns the page of a host.
func New(h *host.Host, opts ...Option) *Page {
	p := &Page{h: h, mux: http.NewServeMux(), key: make([]byte, 32)}
	p.o = options{clock: clock.System(), audit: func(*http.Request, Action) {}}
	p.o.tokens = func(r *http.Request, text string) (Caller, error) {
		t, err := h.Authenticate(r.Context(), text)
		return Caller{Token: t, Name: "token " + t.ID}, err
	}
	for _, o := range opts {
		o(&p.o)
	}
	_, _ = rand.Read(p.key) // it never fails
	p.sessions = newSessions(p.o.clock)
	for _, r := range routes {
		p.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { p.answer(w, req, r) })
	}
	return p
}

// route is something that the page answers.
type route struct {
	pattern string
	scope   host.Scope // that it needs; public: none
	handle  func(*visit) error
}

// auditPattern is the route of the audit log.
const auditPattern = "GET /access/audit"

// public is the scope of what strangers may see: the login and what it looks like.
const public host.Scope = ""

// routes are all that the page answers. A POST needs the token of its form, and is refused across origins.
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
	{"POST /workflows/{workflow}/versions/{version}/do/{action}", host.ScopeRead, (*visit).actVersion}, // and that of the action
	{"GET /upload", host.ScopeUpload, (*visit).uploadForm},
	{"POST /upload", host.ScopeUpload, (*visit).upload},

	{"GET /schedules", host.ScopeRead, (*visit).schedules},
	{"GET /schedules/{schedule}", host.ScopeRead, (*visit).schedule},
	{"GET /schedules/{schedule}/do/{action}", host.ScopeRead, (*visit).confirmSchedule},
	{"POST /schedules/{schedule}/do/{action}", host.ScopeRead, (*visit).actSchedule}, // and the scope of the action
	{"GET /limits", host.ScopeRead, (*visit).limits},

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

// route finds what answers a request; a page that is not there is one of ours, too.
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

// harden sets the headers of every answer. Scripts and styles come from the page's own files alone: what runs and people wrote
// is never one.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a browser hides the origin of a POST, which is checked
	h.Set("Cache-Control", "no-store")
}

// visit is one request, and who makes it.
type visit struct {
	p       *Page
	w       http.ResponseWriter
	r       *http.Request
	caller  Caller
	session string // empty without a login
	ns      *host.Namespace
	space   string // the name of the namespace, "default" for the default one
	now     time.Time
	status  int
	changed bool
	form    url.Values // of a POST
}

// answer answers a request that a route is for.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, to route) {
	v := &visit{p: p, w: w, r: r, now: p.o.clock.Now()}
	err := v.admit(to)
	if err == nil {
		err = to.handle(v)
	}
	if err != nil {
		v.fail(err)
	}
	if r.Method == http.MethodPost || to.pattern == auditPattern { // who has read of the others is one of them
		p.o.audit(r, Action{Caller: v.caller, Scope: v.scope(to), Pattern: to.pattern, Namespace: v.given(), Status: v.status,
			Changed: v.changed})
	}
}

// scope returns the scope of what is asked: that of an action may be another one than that of its page.
func (v *visit) scope(to route) host.Scope {
	if a, ok := actions[v.r.PathValue("action")]; ok {
		return a.Scope
	}
	return to.scope
}

// given returns the namespace that the request names.
func (v *visit) given() string { return v.r.URL.Query().Get("namespace") }

// admit lets a request in that its caller may make.
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
	if name == "" && v.caller.Namespace != "" { // that of the caller's token
		name = v.caller.Namespace
	}
	v.ns, err = v.p.h.Namespace(v.r.Context(), name)
	if err != nil {
		return err
	}
	v.space = v.ns.Name()
	if err := v.needs(to.scope); err != nil {
		return err
	}
	if v.r.Method == http.MethodPost && to.pattern != "POST /upload" { // which reads its body itself
		return v.readForm()
	}
	return nil
}

// needs refuses what the caller's scopes do not allow.
func (v *visit) needs(scope host.Scope) error {
	if v.caller.Allows(scope, v.space) {
		return nil
	}
	if v.caller.Namespace != "" && v.caller.Namespace != v.space {
		return say(http.StatusForbidden, "Your token is for the namespace %q, not for %q.", v.caller.Namespace, v.space)
	}
	var has []string
	for _, s := range v.caller.Scopes {
		has = append(has, string(s))
	}
	return say(http.StatusForbidden, "This needs the scope %s; your token has %s.", scope, strings.Join(has, ", "))
}

// maxForm bounds the body of a POST: a payload of 1 MiB of which each byte is escaped, and the fields beside it.
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

// unread says why a form cannot be read, with the status that its body has said, if there is one.
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

// sentence is an error that is shown as it is.
type sentence struct {
	status int
	text   string
}

func say(status int, format string, args ...any) error {
	return &sentence{status, fmt.Sprintf(format, args...)}
}

// Error returns the sentence.
func (s *sentence) Error() string { return s.text }

// statuses maps the host's errors.
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
	{host.ErrStoreFailed, http.StatusServiceUnavailable}, {context.Canceled, http.StatusServiceUnavailable},
}

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

// fail answers with an error. Who is not known is sent to the login, and comes back to where they wanted to go.
func (v *visit) fail(err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized && v.p.o.people == nil && v.r.Method == http.MethodGet && v.r.PathValue("file") == "" {
		v.toLogin()
		return
	}
	text := err.Error()
	if _, ok := errors.AsType[*sentence](err); !ok && text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	v.write(status, "error", fmt.Sprintf("%d %s", status, http.StatusText(status)), text)
}
