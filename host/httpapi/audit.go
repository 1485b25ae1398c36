package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// Record is one entry of the audit log: a caller, its request and the answer. It has no bodies, no tokens and no paths
// of hooks.
type Record struct {
	Time      time.Time  `json:"time"`           // of the answer
	Caller    string     `json:"caller"`         // local, token ID, or the address of a caller without a token
	Name      string     `json:"name,omitempty"` // of the token
	Address   string     `json:"address"`
	Scope     host.Scope `json:"scope"`
	Endpoint  string     `json:"endpoint"`        // method and pattern, such as POST /v1/runs/{id}/cancel
	Path      string     `json:"path,omitempty"`  // truncated to maxAuditBytes as JSON; empty for hooks
	Query     string     `json:"query,omitempty"` // likewise
	Namespace string     `json:"namespace,omitempty"`
	Status    int        `json:"status"`
	Cut       bool       `json:"cut,omitempty"`     // the answer is incomplete: the client left, or the server failed
	Omitted   int        `json:"omitted,omitempty"` // refused requests since the previous record of one, which were only counted
	Refused   bool       `json:"-"`                 // the request has changed nothing
}

const (
	// maxAuditBytes bounds what a caller can write into one record, for path and query each. JSON takes six bytes for
	// some characters.
	maxAuditBytes = 512
	// refusalsPerSecond and refusalsAtOnce bound the records of refused requests of all callers. callerRefusals and
	// callerRefusalsAtOnce bound them per caller, so that a flood of one caller leaves room for others.
	refusalsPerSecond, refusalsAtOnce    = 20, 200
	callerRefusals, callerRefusalsAtOnce = 2, 20
)

// refusals limits the records of refused requests and counts the omitted ones.
type refusals struct {
	all *rate.Limiter
	by  *rates

	mu      sync.Mutex
	omitted int
}

func newRefusals() *refusals {
	return &refusals{all: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce), by: newRates(callerRefusals, callerRefusalsAtOnce)}
}

// allow reports whether to record a refused request of a caller, and how many were omitted before it.
func (f *refusals) allow(caller string) (omitted int, ok bool) {
	ok = f.by.allow(caller) && f.all.Allow()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ok {
		f.omitted++
		return 0, false
	}
	omitted, f.omitted = f.omitted, 0
	return omitted, true
}

// tokenLike matches tokens and parts of tokens.
var tokenLike = regexp.MustCompile(`(?i)wfh_[A-Za-z0-9_-]*`)

// recorded returns the part of a path or query for a record: without tokens, and at most maxAuditBytes as JSON.
func recorded(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil && tokenLike.MatchString(plain) && !tokenLike.MatchString(text) {
		text = plain // a token was escaped
	}
	text = tokenLike.ReplaceAllString(strings.ToValidUTF8(text, "?"), "wfh_***")
	size := 0
	for i, c := range text {
		switch {
		case c < ' ' || c == 0x7f || c == '<' || c == '>' || c == '&' || c == '\u2028' || c == '\u2029':
			size += len(`\u0000`)
		case c == '"' || c == '\\':
			size += 2
		default:
			size += utf8.RuneLen(c)
		}
		if size > maxAuditBytes {
			return text[:i]
		}
	}
	return text
}

// answered is a ResponseWriter that remembers the status.
type answered struct {
	http.ResponseWriter
	status  int
	changed bool // independent of the status, which a workflow may choose

	of   context.Context // of a request that reads; nil: the answer does not depend on it
	told bool            // the answer is that the caller is not admitted any more
	cut  bool            // likewise, but the answer had begun
}

// still returns an error if the caller of a request that reads is not admitted any more. An answer that has not begun
// becomes that error; an answer in progress is cut.
func (a *answered) still() error {
	if a.of == nil {
		return nil
	}
	err := endOf(a.of)
	if err == nil || a.told {
		return err
	}
	if a.status != 0 {
		a.cut = true
		return err
	}
	a.told, a.status = true, http.StatusUnauthorized
	a.Header().Del("Content-Length")
	writeProblem(a.ResponseWriter, err)
	return err
}

// WriteHeader writes the status.
func (a *answered) WriteHeader(status int) {
	if a.still() != nil {
		return
	}
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (a *answered) Write(b []byte) (int, error) {
	if err := a.still(); err != nil {
		return 0, err
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Flush writes what is buffered.
func (a *answered) Flush() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// unchanged has the statuses of requests that have changed nothing. 422 is not among them: a run may have failed with
// it.
var unchanged = map[int]bool{http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusForbidden: true,
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusRequestTimeout: true, http.StatusConflict: true,
	http.StatusRequestEntityTooLarge: true, http.StatusUnsupportedMediaType: true}

// audit records requests that may have changed data, deliveries to hooks included, and denied requests. It skips
// requests over their rate, and limits the records of refused requests, so that no caller can fill the log. cut says
// that the answer is incomplete.
func (s *API) audit(a *answered, r *http.Request, pattern string, scope host.Scope, c *caller, cut bool) {
	denied := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
	hook := pattern == deliverPattern
	if c == nil || a.status == http.StatusTooManyRequests || !denied && !hook && (scope == public || scope == host.ScopeRead ||
		scope == host.ScopeWork) { // the journals of runs record what workers do
		return
	}
	status := a.status
	if status == 0 { // nothing was written
		status = http.StatusOK
	}
	rec := Record{Time: clock.System().Now().UTC(), Caller: cmp.Or(c.address, c.name), Name: c.Name, Address: s.addressOf(r),
		Scope: scope, Endpoint: pattern, Status: status, Cut: cut, Refused: unchanged[status] && !a.changed && !cut}
	if rec.Refused {
		var ok bool
		rec.Omitted, ok = s.refusals.allow(c.name)
		if !ok {
			return
		}
	}
	if !hook {
		rec.Path, rec.Query = recorded(r.URL.Path), recorded(r.URL.RawQuery)
	}
	rec.Namespace, _ = namespaceOf(r) // an invalid name was refused
	s.access.Audit(rec)
}
