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

// Record is one entry of the audit log: who asked for what, and what the answer was. Bodies, tokens and what is in the path of
// a hook are not in it.
type Record struct {
	Time      time.Time  `json:"time"`           // of the answer
	Caller    string     `json:"caller"`         // local, token ID, or the address of one without a token
	Name      string     `json:"name,omitempty"` // of the token
	Address   string     `json:"address"`
	Scope     host.Scope `json:"scope"`
	Endpoint  string     `json:"endpoint"`        // method and pattern, such as POST /v1/runs/{id}/cancel
	Path      string     `json:"path,omitempty"`  // the beginning of it, maxAuditBytes as JSON; none of hooks
	Query     string     `json:"query,omitempty"` // likewise
	Namespace string     `json:"namespace,omitempty"`
	Status    int        `json:"status"`
	Cut       bool       `json:"cut,omitempty"`     // the answer was not sent to its end: the client left, or the server failed
	Omitted   int        `json:"omitted,omitempty"` // refused requests since the record before of one, which were only counted
	Refused   bool       `json:"-"`                 // the request has changed nothing
}

const (
	// maxAuditBytes bounds what a caller can write into one record, twice: JSON takes six bytes for some characters.
	maxAuditBytes = 512
	// refusalsPerSecond and refusalsAtOnce bound the records of refused requests of all callers, and callerRefusals and
	// callerRefusalsAtOnce those of one of them, so that a flood of one leaves a place for others.
	refusalsPerSecond, refusalsAtOnce    = 20, 200
	callerRefusals, callerRefusalsAtOnce = 2, 20
)

// refusals counts the refused requests that are not recorded.
type refusals struct {
	all *rate.Limiter
	by  *rates

	mu      sync.Mutex
	omitted int
}

func newRefusals() *refusals {
	return &refusals{all: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce), by: newRates(callerRefusals, callerRefusalsAtOnce)}
}

// allow reports whether a refused request of a caller is recorded, and how many before it were not.
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

// tokenLike is what a token looks like, or a part of one.
var tokenLike = regexp.MustCompile(`(?i)wfh_[A-Za-z0-9_-]*`)

// recorded returns the part of a path or query that a record holds: without tokens, and no more than maxAuditBytes as JSON.
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

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status  int
	changed bool // whatever the status says: a workflow chose it

	of   context.Context // of a request that reads; nil: what is answered does not depend on it
	told bool            // the answer says that the caller is no longer let in
	cut  bool            // likewise, but it had begun
}

// still returns an error if the caller of a request that reads is no longer let in. An answer that has not begun says so;
// nothing more of another one is sent.
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

// unchanged are the statuses of requests that have changed nothing. 422 is not among them: a run that has failed is one.
var unchanged = map[int]bool{http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusForbidden: true,
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusRequestTimeout: true, http.StatusConflict: true,
	http.StatusRequestEntityTooLarge: true, http.StatusUnsupportedMediaType: true}

// audit records requests that may have changed something, deliveries to hooks included, and those that were denied. What
// was refused for its rate is not recorded, and refused requests within limits, so that nobody fills the log. cut says that
// the answer was not sent to its end.
func (s *API) audit(a *answered, r *http.Request, pattern string, scope host.Scope, c *caller, cut bool) {
	denied := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
	hook := pattern == deliverPattern
	if c == nil || a.status == http.StatusTooManyRequests || !denied && !hook && (scope == public || scope == host.ScopeRead ||
		scope == host.ScopeWork) { // what workers do is in the journals of runs
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
	rec.Namespace, _ = namespaceOf(r) // one that cannot be was refused
	s.access.Audit(rec)
}
