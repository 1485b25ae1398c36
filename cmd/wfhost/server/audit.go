package server

import (
	"net/http"
	"time"

	"github.com/wfhost/wfhost/host"
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
	Path      string     `json:"path,omitempty"`  // at most maxAuditBytes; none of hooks
	Query     string     `json:"query,omitempty"` // likewise
	Namespace string     `json:"namespace,omitempty"`
	Status    int        `json:"status"`
}

// maxAuditBytes bounds what a caller can write into one record.
const maxAuditBytes = 1024

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader writes the status.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (a *answered) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Flush writes what is buffered.
func (a *answered) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// audit records requests that may have changed something, deliveries to hooks included, and those that were denied. What
// was refused for its rate is not recorded, so that nobody fills the log.
func (s *Server) audit(a *answered, r *http.Request, pattern string, scope host.Scope, c *caller) {
	denied := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
	hook := pattern == deliverPattern
	if c == nil || a.status == http.StatusTooManyRequests || !denied && !hook && (scope == public || scope == host.ScopeRead) {
		return
	}
	status := a.status
	if status == 0 { // nothing was written
		status = http.StatusOK
	}
	rec := Record{Time: time.Now().UTC(), Caller: c.name, Name: c.Name, Address: s.addressOf(r), Scope: scope, Endpoint: pattern,
		Status: status}
	if !hook {
		rec.Path, rec.Query = r.URL.Path[:min(len(r.URL.Path), maxAuditBytes)], r.URL.RawQuery[:min(len(r.URL.RawQuery), maxAuditBytes)]
	}
	rec.Namespace, _ = namespaceOf(r) // one that cannot be was refused
	s.access.Audit(rec)
}
