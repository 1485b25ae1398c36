package client

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// Kinds of errors, for errors.Is.
var (
	ErrNotFound = errors.New("not found")             // the run, workflow or version does not exist in the namespace
	ErrConflict = errors.New("conflict")              // another run has the id, or the version is in use
	ErrTerminal = errors.New("run has ended")         // an ended run cannot change
	ErrMismatch = errors.New("replay differs")        // the run is stuck
	ErrInvalid  = errors.New("invalid argument")      // a name, id, input or parameter is not allowed
	ErrLimit    = errors.New("limit exceeded")        // a value is larger than allowed
	ErrRejected = errors.New("module rejected")       // the module cannot be a workflow
	ErrDenied   = errors.New("denied")                // the token is missing or insufficient
	ErrBusy     = errors.New("busy")                  // a quota or too many requests; try again later
	ErrDiskFull = errors.New("disk is nearly full")   // no new work is accepted until there is room
	ErrCopy     = errors.New("data is a copy")        // nothing happens in it until it is released
	ErrAway     = errors.New("the server is away")    // the server does not answer or is stopping
	ErrRefused  = errors.New("the workflow refused")  // the update, before it began
	ErrFailed   = errors.New("the workflow answered") // the update or query with an error
)

// kinds maps codes to errors. For other codes the HTTP status decides.
var kinds = map[string]error{
	"not_found": ErrNotFound, "conflict": ErrConflict, "terminal": ErrTerminal, "mismatch": ErrMismatch, "lease_lost": ErrConflict,
	"invalid": ErrInvalid, "schema": ErrInvalid, "definition": ErrInvalid, "limit": ErrLimit, "rejected": ErrRejected,
	"unauthorized": ErrDenied, "scope": ErrDenied, "origin": ErrDenied, "busy": ErrBusy, "disk_full": ErrDiskFull, "copy": ErrCopy,
	"draining": ErrAway, "closed": ErrAway, "fenced": ErrAway, "store_failed": ErrAway, "unavailable": ErrAway, "cancelled": ErrAway,
	"update_refused": ErrRefused, "update_failed": ErrFailed, "query_failed": ErrFailed, "stuck": ErrMismatch,
}

// Error is an error answer of the server.
type Error struct {
	Status int    // HTTP status
	Code   string // stable, such as "not_found"; empty if a proxy answered
	Detail string // a sentence for people
	// RetryAfter is the delay the server asks for before a retry; 0 if none.
	RetryAfter time.Duration
	// Faults are violations of the workflow's schema, or mistakes in a definition.
	Faults []Fault
	// Failure is the workflow's error for an update that failed, otherwise nil.
	Failure *abi.Error
	// Body is the raw answer.
	Body []byte
}

// Fault is one mistake in an input.
type Fault struct {
	Pointer string `json:"pointer"`        // RFC 6901: the position in the input
	Line    int    `json:"line,omitempty"` // line of a definition, from 1
	Message string `json:"message"`
}

// Error returns Detail.
func (e *Error) Error() string { return e.Detail }

// Is reports whether the error is of the kind target, one of the errors of this package.
func (e *Error) Is(target error) bool {
	kind, ok := kinds[e.Code]
	if !ok {
		kind = map[int]error{http.StatusNotFound: ErrNotFound, http.StatusUnauthorized: ErrDenied, http.StatusForbidden: ErrDenied,
			http.StatusTooManyRequests: ErrBusy, http.StatusServiceUnavailable: ErrAway, http.StatusBadGateway: ErrAway,
			http.StatusGatewayTimeout: ErrAway, http.StatusRequestEntityTooLarge: ErrLimit}[e.Status]
	}
	if e.Code == "busy" && e.Status == http.StatusServiceUnavailable { // all streams of the server are in use
		return target == ErrBusy || target == ErrAway
	}
	return kind != nil && target == kind || kind == ErrDiskFull && target == ErrBusy
}

// problem is the error document of the API.
type problem struct {
	Detail  string     `json:"detail"`
	Code    string     `json:"code"`
	Faults  []Fault    `json:"faults"`
	Run     *Run       `json:"run"`
	Failure *abi.Error `json:"failure"`
}

// errorOf returns the error of an answer: a *RunError if it tells how a run ended.
func errorOf(res *http.Response, b []byte) error {
	var p problem
	if err := json.Unmarshal(b, &p); err != nil || p.Detail == "" {
		p = problem{Detail: fmt.Sprintf("the server answered %s: %.300s", res.Status, bytes.TrimSpace(b))}
	}
	if p.Run != nil && res.StatusCode == http.StatusUnprocessableEntity {
		return &RunError{Run: *p.Run, Failure: p.Failure, detail: p.Detail}
	}
	e := &Error{Status: res.StatusCode, Code: p.Code, Detail: p.Detail, Faults: p.Faults, Failure: p.Failure, Body: b}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, maxRetryAfterSeconds)) * time.Second
	}
	return e
}

// maxRetryAfterSeconds bounds the delay that a server may ask for, so that the conversion does not overflow.
const maxRetryAfterSeconds = 24 * 3600

// RunError reports that a run is stuck, or ended in any other way than completed.
type RunError struct {
	Run Run // the current state
	// Failure is the error of the workflow or the host: code, message, the step with its attempts, and the cause in its
	// details. It is nil for cancelled and terminated runs, and for failures in a format of the workflow's own, which
	// Run.Error contains.
	Failure *abi.Error

	detail string
}

// Error returns how the run ended.
func (e *RunError) Error() string { return e.detail }

// Is reports whether target is ErrMismatch and the run is stuck.
func (e *RunError) Is(target error) bool { return target == ErrMismatch && e.Run.Status == Stuck }

// permanent reports whether retrying a connection would fail in the same way.
func permanent(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err) // the server does not speak TLS
	return ok
}
