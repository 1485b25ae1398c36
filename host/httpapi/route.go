package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/wfhost/wfhost/host"
)

const startPattern = "POST /v1/workflows/{workflow}/runs"

// A request about a run may come to any host of a cluster. The host that it comes to checks the caller, and passes the request
// on to the owner of the run, which trusts its signature and checks nothing of the caller again. A request is passed on once.

// passed is who has made a request, as one host tells another.
type passed struct {
	Token   host.Token `json:"token"`
	Name    string     `json:"name"`
	Address string     `json:"address,omitempty"`
	Exempt  bool       `json:"exempt,omitempty"` // from limits of streams
	Last    bool       `json:"last,omitempty"`   // the request must not be passed on again
}

type passedKey struct{}

// passedOn returns what another host says of the caller of a request, nil for a request of a caller.
func passedOn(r *http.Request) *passed {
	p, _ := r.Context().Value(passedKey{}).(*passed)
	return p
}

// fromPeer checks the signature of a request of another host. It reports whether it has answered the request.
func (s *API) fromPeer(w http.ResponseWriter, r *http.Request) (out *http.Request, done bool) {
	if r.Header.Get(host.PeerHeader) == "" {
		return r, false
	}
	p := &passed{}
	if _, err := s.h.VerifyPeer(r, p); err != nil {
		writeProblem(w, problem(http.StatusUnauthorized, "peer", "%v", err))
		return r, true
	}
	if r.URL.Path == host.PeerPath {
		s.noticed(w, r)
		return r, true
	}
	return r.WithContext(context.WithValue(r.Context(), passedKey{}, p)), false
}

// maxNotice bounds the body of a notice, which has some hundred bytes, and more if it names many handlers.
const maxNotice = 1 << 20

func (s *API) noticed(w http.ResponseWriter, r *http.Request) {
	var n host.PeerNotice
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxNotice)).Decode(&n); err != nil {
		writeProblem(w, problem(http.StatusBadRequest, "invalid", "the body is not a notice: %v", err))
		return
	}
	s.h.Noticed(n)
	w.WriteHeader(http.StatusNoContent)
}

// ownerOf returns the host to which a request must be passed on, false if it is for this one. r is as the handler of the
// pattern gets it: ownerOf reads the body of a start.
func (s *API) ownerOf(r *http.Request, pattern string) (host.HostInfo, bool, error) {
	if !s.h.Clustered() || passedOn(r) != nil {
		return host.HostInfo{}, false, nil
	}
	ns := namespaceFrom(r.Context())
	name := ""
	switch {
	case pattern == deliverPattern:
		return ns.HookOwner(r.Context(), r.PathValue("token"))
	case pattern == importPattern:
		var begin bytes.Buffer
		owner, other, err := ns.ImportOwner(r.Context(), io.TeeReader(r.Body, &begin))
		r.Body = &replayed{io.MultiReader(&begin, r.Body), r.Body}
		return owner, other, err
	case pattern == drainPattern, pattern == undrainPattern:
		x, err := s.h.HostNamed(r.PathValue("host"))
		return x, err == nil && !x.Self, err
	case strings.HasPrefix(pattern, attemptPattern):
		return s.h.LeaseOwner(r.PathValue("lease"))
	case strings.Contains(pattern, "/runs/{id}"):
		name = r.PathValue("id")
	case strings.Contains(pattern, "/schedules/{schedule}"):
		name = r.PathValue("schedule")
	case pattern == startPattern, pattern == "POST /v1/schedules":
		name = idIn(r)
	}
	if name == "" {
		return s.starter(pattern)
	}
	owner, ok, err := ns.Owner(r.Context(), name)
	if errors.Is(err, host.ErrFenced) && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return owner, false, nil // the store can tell
	}
	return owner, ok, err
}

// starter returns the host that should choose the id of a new run: this one, unless it owns no partition.
func (s *API) starter(pattern string) (host.HostInfo, bool, error) {
	if pattern != startPattern || len(s.h.Partitions()) > 0 {
		return host.HostInfo{}, false, nil
	}
	for _, x := range s.otherHosts() {
		if len(x.Partitions) > 0 {
			return x, true, nil
		}
	}
	return host.HostInfo{}, false, nil // an error says that it owns none
}

// idIn returns the id in the body of a request, "" if it has none. What cannot be read is an error for the handler.
func idIn(r *http.Request) string {
	var of struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(peek(r), &of) != nil {
		return ""
	}
	return of.ID
}

// peek returns the body of a request, which the handler reads again; nil if it cannot be read.
func peek(r *http.Request) []byte {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	rest := r.Body
	r.Body = &replayed{io.MultiReader(bytes.NewReader(b), rest), rest}
	if err != nil {
		return nil
	}
	return b
}

// replayed is a body of which a part was read.
type replayed struct {
	io.Reader
	io.Closer
}

// passPage passes a visit of the page on to the owner of the run or schedule that it is about. It reports whether it has. r is
// without the prefix. The owner knows neither the local token of this server nor, without a login, who visits it.
func (s *API) passPage(w http.ResponseWriter, whole, r *http.Request) bool {
	if !s.h.Clustered() {
		return false
	}
	text, ok := s.page.Token(whole)
	if !ok && !s.access.Open || ok && s.isLocal(text) {
		return false
	}
	name, err := visited(whole, r)
	path := r.URL.EscapedPath()
	starts := name == "" && r.Method == http.MethodPost && strings.HasPrefix(path, "/workflows/") &&
		strings.HasSuffix(path, "/start")
	if err != nil || name == "" && !starts {
		return false
	}
	ns, err := s.h.Namespace(r.Context(), r.URL.Query().Get("namespace"))
	if err != nil {
		return false
	}
	owner, other, err := ns.Owner(r.Context(), name)
	if starts { // without an id
		owner, other, err = s.starter(startPattern)
	}
	if err != nil || !other || owner.Address == "" {
		return false
	}
	to, err := url.Parse(owner.Address)
	if err != nil {
		return false
	}
	s.forward(w, r, &caller{name: "page", address: s.addressOf(r)}, &owner, to, nil)
	return true
}

// visited returns the id of the run or schedule that a visit of the page is about, "" if there is none.
func visited(whole, r *http.Request) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/", 3) //nolint:mnd // kind, name, rest
	field := ""                                                                   // of the form: a run that begins
	switch {
	case len(parts) < 2:
		return "", nil
	case r.Method != http.MethodPost:
	case parts[0] == "workflows" && parts[len(parts)-1] == "start":
		field = "id"
	case parts[0] == "runs" && parts[len(parts)-1] == "do/restart":
		field = "new"
	}
	if field != "" {
		form, _ := url.ParseQuery(string(peek(r))) // the page reports errors
		whole.Body = r.Body
		if id := strings.TrimSpace(form.Get(field)); id != "" {
			return id, nil
		}
	}
	if parts[0] != "runs" && parts[0] != "schedules" {
		return "", nil
	}
	return url.PathUnescape(parts[1])
}

// passOn passes a request on to its owner, and its answer back.
func (s *API) passOn(w http.ResponseWriter, r *http.Request, c *caller, owner *host.HostInfo) error {
	if owner.Address == "" {
		s.h.CountForward(host.ForwardFailed)
		return problem(http.StatusServiceUnavailable, "moved", "the host %q has no address for requests", owner.Name)
	}
	to, err := url.Parse(owner.Address)
	if err != nil {
		return problem(http.StatusServiceUnavailable, "moved", "the address of the host %q is no URL", owner.Name)
	}
	s.forward(w, r, c, owner, to, []string{"Authorization", "Cookie", "Origin", "Sec-Fetch-Site"})
	return nil
}

// errRefused: the other host has another key, or a clock that is a minute off.
var errRefused = errors.New("the other host has refused the signature")

// forward is passOn to an address, without some headers of the request. The name of the server under which the request has come
// stays.
func (s *API) forward(w http.ResponseWriter, r *http.Request, c *caller, owner *host.HostInfo, to *url.URL, without []string) {
	(&httputil.ReverseProxy{FlushInterval: -1, Transport: s.h.PeerTransport(),
		Rewrite: func(p *httputil.ProxyRequest) {
			for _, name := range append(without, "X-Forwarded-For") {
				p.Out.Header.Del(name)
			}
			p.Out.URL.Path, p.Out.URL.RawPath, p.Out.URL.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
			_ = s.h.SignPeer(p.Out, passed{Token: c.Token, Name: c.name, Address: c.address, Exempt: c.exempt}) // a token is always JSON
			p.SetURL(to)
			p.Out.Host = r.Host
		},
		ModifyResponse: func(a *http.Response) error {
			if a.StatusCode == http.StatusUnauthorized { // it checks no callers, so it has refused the signature
				return errRefused
			}
			s.h.CountForward(host.ForwardAnswered)
			for name := range w.Header() { // this host has set its own
				a.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			w.Header().Set("Retry-After", "1")
			s.h.CountForward(resultOf(r.Context(), err))
			writeProblem(w, unanswered(r.Context(), owner, err))
		}}).ServeHTTP(w, r)
}

// resultOf returns how a request ended that another host has not answered.
func resultOf(ctx context.Context, err error) host.ForwardResult {
	switch {
	case errors.Is(err, errRefused):
		return host.ForwardRefused
	case ctx.Err() != nil:
		return host.ForwardCancelled
	}
	return host.ForwardFailed
}

// unanswered returns the problem of a request that another host has not answered. The caller gets it also if this host has broken
// the request off, since an answer without a status would be a success.
func unanswered(ctx context.Context, owner *host.HostInfo, err error) error {
	code, why := "moved", "did not answer; it may have done what was asked"
	switch {
	case endOf(ctx) != nil:
		return endOf(ctx)
	case errors.Is(err, errRefused):
		why = "has another --cluster-key, or a clock that is a minute off"
	case ctx.Err() != nil:
		code, why = "cancelled", "has not answered before this one stopped; it may have done what was asked"
	}
	return problem(http.StatusServiceUnavailable, code, "the host %q %s", owner.Name, why)
}
