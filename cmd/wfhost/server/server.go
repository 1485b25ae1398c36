// Package server is the HTTP API of a host, under /v1, with its OpenAPI description at /openapi.json. An answer
// of 200, 201 or 202 means that what was asked is durable. Errors are problem documents (RFC 9457) with a stable
// code.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Version of the API in its description.
const apiVersion = "1"

// maxBodyBytes bounds a request that is no module: an input, and the JSON around it.
const maxBodyBytes = 2 * abi.MaxPayloadBytes

// Handler gives the API of a host.
func Handler(h *host.Host) http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("wfhost", apiVersion)
	config.DocsPath = ""
	api := humago.New(mux, config)
	s := &service{h: h, misses: rate.NewLimiter(missesPerSecond, missesAtOnce)}
	s.registerWorkflows(api)
	s.registerVersions(api)
	s.registerRuns(api)
	s.registerActions(api)
	s.registerChanges(api)
	s.registerSignals(api)
	s.registerOutput(api)
	mux.HandleFunc("POST /v1/hooks/{token}", s.deliver)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		for _, err := range h.Runs(r.Context(), host.Query{Limit: 1}) {
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

type service struct {
	h      *host.Host
	misses *rate.Limiter // of deliveries to tokens that nobody holds
}

// Problem is the error document.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // stable: not_found, conflict, terminal, invalid, rejected, limit, mismatch, failed, …
	Run    any    `json:"run,omitempty"`
}

// Error gives the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus gives the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of a problem document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, code, format string, args ...any) error {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code,
		Detail: fmt.Sprintf(format, args...)}
}

// kinds maps the host's errors.
var kinds = []struct {
	err    error
	status int
	code   string
}{
	{host.ErrTerminal, http.StatusConflict, "terminal"},
	{host.ErrConflict, http.StatusConflict, "conflict"},
	{host.ErrNotFound, http.StatusNotFound, "not_found"},
	{host.ErrRejected, http.StatusBadRequest, "rejected"},
	{host.ErrBusy, http.StatusTooManyRequests, "busy"},
	{host.ErrLimit, http.StatusRequestEntityTooLarge, "limit"},
	{host.ErrInvalid, http.StatusBadRequest, "invalid"},
	{host.ErrMismatch, http.StatusConflict, "mismatch"},
	{host.ErrClosed, http.StatusServiceUnavailable, "closed"},
	{host.ErrStoreFailed, http.StatusServiceUnavailable, "store_failed"},
}

// failed turns an error of the host into a problem.
func failed(err error) error {
	if err == nil {
		return nil
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return problem(k.status, k.code, "%v", err)
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem(http.StatusServiceUnavailable, "cancelled", "%v", err)
	}
	return problem(http.StatusInternalServerError, "internal", "%v", err)
}
