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

// What an error is, for errors.Is.
var (
	ErrNotFound = errors.New("not found")             // no such run, workflow or version in the namespace
	ErrConflict = errors.New("conflict")              // an id is taken by another run, or a version is in use
	ErrTerminal = errors.New("run has ended")         // and an end is final
	ErrMismatch = errors.New("replay differs")        // the run is stuck
	ErrInvalid  = errors.New("invalid argument")      // a name, id, input or parameter is not allowed
	ErrLimit    = errors.New("limit exceeded")        // something is larger than allowed
	ErrRejected = errors.New("module rejected")       // it cannot be a workflow
	ErrDenied   = errors.New("denied")                // no token, or one that does not allow it
	ErrBusy     = errors.New("busy")                  // a quota, or too much at once; try later
	ErrDiskFull = errors.New("disk is nearly full")   // nothing new is accepted until there is room
	ErrCopy     = errors.New("data is a copy")        // nothing happens in it until it is released
	ErrAway     = errors.New("the server is away")    // it does not answer, or is about to end
	ErrRefused  = errors.New("the workflow refused")  // an update, before it began
	ErrFailed   = errors.New("the workflow answered") // an update or a query, with an error
)

// kinds maps the codes of errors to sentinels. The status decides for a code that is not listed.
var kinds = map[string]error{
	"not_found": ErrNotFound, "conflict": ErrConflict, "terminal": ErrTerminal, "mismatch": ErrMismatch, "lease_lost": ErrConflict,
	"invalid": ErrInvalid, "schema": ErrInvalid, "definition": ErrInvalid, "limit": ErrLimit, "rejected": ErrRejected,
	"unauthorized": ErrDenied, "scope": ErrDenied, "origin": ErrDenied, "busy": ErrBusy, "disk_full": ErrDiskFull, "copy": ErrCopy,
	"draining": ErrAway, "closed": ErrAway, "fenced": ErrAway, "store_failed": ErrAway, "cancelled": ErrAway,
	"update_refused": ErrRefused, "update_failed": ErrFailed, "query_failed": ErrFailed, "stuck": ErrMismatch,
}

// Error is an answer of the server that is an error.
type Error struct {
	Status int    // of HTTP
	Code   string // stable, such as "not_found"; empty if a proxy has answered
	Detail string // a sentence for people
	// RetryAfter is after how long the server asks to be retried; 0 if it says nothing.
	RetryAfter time.Duration
	// Faults are what does not fit the workflow's schema, or what is wrong with a definition.
	Faults []Fault
	// Failure is what the workflow has said of an update that failed; nil for all else.
	Failure *abi.Error
	// Body is the answer as it came.
	Body []byte
}

// Fault is one thing that is wrong with an input.
type Fault struct {
	Pointer string `json:"pointer"`        // RFC 6901: where it is in the input
	Line    int    `json:"line,omitempty"` // of the text of a definition, from 1
	Message string `json:"message"`
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Detail }

// Is says which of the errors of this package it is.
func (e *Error) Is(target error) bool {
	kind, ok := kinds[e.Code]
	if !ok {
		kind = map[int]error{http.StatusNotFound: ErrNotFound, http.StatusUnauthorized: ErrDenied, http.StatusForbidden: ErrDenied,
			http.StatusTooManyRequests: ErrBusy, http.StatusServiceUnavailable: ErrAway, http.StatusBadGateway: ErrAway,
			http.StatusGatewayTimeout: ErrAway, http.StatusRequestEntityTooLarge: ErrLimit}[e.Status]
	}
	if e.Code == "busy" && e.Status == http.StatusServiceUnavailable { // all of a server's streams are taken
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

// errorOf makes an error of an answer: a *RunError if it says how a run has ended.
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

// maxRetryAfterSeconds bounds what a server may ask for, so that the product is a duration.
const maxRetryAfterSeconds = 24 * 3600

// RunError says that a run has ended otherwise than completed, or is stuck.
type RunError struct {
	Run Run // as it stands
	// Failure is what the workflow, or the host, has said: code, message, the step and its attempts, and the cause in
	// its details. nil for runs that were cancelled or terminated, and for failures of a form of the workflow's own,
	// which Run.Error has.
	Failure *abi.Error

	detail string
}

// Error says how the run has ended.
func (e *RunError) Error() string { return e.detail }

// Is reports whether the target is ErrMismatch, and the run is stuck.
func (e *RunError) Is(target error) bool { return target == ErrMismatch && e.Run.Status == Stuck }

// permanent reports whether an error of a connection is the same when it is retried.
func permanent(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err) // no TLS is spoken there
	return ok
}
