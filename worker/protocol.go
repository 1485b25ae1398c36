package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// Attempt is an attempt of a step, as received from the server.
type Attempt struct {
	Lease          string    `json:"lease"`
	Until          time.Time `json:"until"`      // end of the lease, unless a heartbeat extends it
	Deadline       time.Time `json:"deadline"`   // end of the attempt, by the step's timeout
	TimeoutMs      int64     `json:"timeout_ms"` // time from taking the attempt to its deadline, since clocks may differ
	Handler        string    `json:"handler"`
	Namespace      string    `json:"namespace"`
	Run            string    `json:"run"`
	Workflow       string    `json:"workflow"`
	Version        uint32    `json:"version"`
	Step           string    `json:"step"`
	Attempt        int       `json:"attempt"`      // from 1
	Attempts       int       `json:"attempts"`     // maximum number; 0 = no limit
	Delivery       int       `json:"delivery"`     // greater than 1 after a worker was lost
	AtMostOnce     bool      `json:"at_most_once"` // not repeated if this worker is lost
	IdempotencyKey string    `json:"idempotency_key"`
	TraceParent    string    `json:"traceparent"`

	Input       json.RawMessage `json:"input"`        // if the input is JSON
	InputBase64 []byte          `json:"input_base64"` // if it is not JSON
	Details     json.RawMessage `json:"details"`      // what Heartbeat recorded last, in this or an earlier attempt
	progress    *progress
}

// progress holds the details for the next heartbeat of an attempt.
type progress struct {
	mu      sync.Mutex
	details []byte // nil = nothing to send
}

func (p *progress) set(details []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.details = details
}

// take removes and returns the details to send.
func (p *progress) take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.details
	p.details = nil
	return d
}

// giveBack restores details that could not be sent, unless there are newer ones.
func (p *progress) giveBack(details []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.details == nil {
		p.details = details
	}
}

func (a *Attempt) input() []byte {
	if len(a.InputBase64) > 0 {
		return a.InputBase64
	}
	return a.Input
}

const (
	// pollWait is how long the server holds a request for attempts. Proxies allow more.
	pollWait = 30 * time.Second
	// firstPause and longestPause bound the pauses between retries, which double.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	// maxAnswerBytes bounds an answer: 4 MiB of inputs, or a single one of 1 MiB, escaped as JSON or base64.
	maxAnswerBytes = 32 << 20
	// maxBatch is the most attempts that the server hands out in one answer.
	maxBatch = 100
	// beats is the number of heartbeats per lease, so that a late or lost heartbeat does not lose the lease.
	beats = 3
	// maxProblemBytes bounds how much of a refusal is read, and maxMessageBytes how much of an error is sent: the server's limit.
	maxProblemBytes, maxMessageBytes = 64 << 10, 16 << 10
)

// refusal is an answer that is not 2xx.
type refusal struct {
	Status int
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (e *refusal) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.Status, e.Detail)
}

// forGood reports whether retrying would return the same error.
func forGood(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.Status >= 300 && r.Status < 500 && r.Status != http.StatusRequestTimeout && r.Status != http.StatusTooManyRequests
}

// request makes a request and decodes the answer into out, unless that is nil.
func (w *Worker) request(ctx context.Context, method, path string, query url.Values, body []byte, out any) error {
	if w.Namespace != "" {
		query.Set("namespace", w.Namespace)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.server+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	res, err := w.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // the body is only read
	if res.StatusCode/100 != 2 {
		e := &refusal{Status: res.StatusCode}
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes)) // what was read is shown
		if json.Unmarshal(b, e) != nil || e.Detail == "" {
			e.Detail = fmt.Sprintf("%.200q", b)
		}
		return e
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(res.Body, maxAnswerBytes)).Decode(out)
}

// pause waits, and reports false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	late, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-late.Done()
	return ctx.Err() == nil
}

// poll takes attempts of a handler until ctx is done. Each attempt takes a slot, which do must release. poll returns an error
// if the server refuses for good.
func (w *Worker) poll(ctx context.Context, name string, slots chan struct{}, do func(Attempt)) error {
	failures := firstPause
	for {
		free := occupy(ctx, slots)
		if free == 0 {
			return nil
		}
		list, err := w.take(ctx, name, free)
		for range free - len(list) {
			<-slots
		}
		for _, a := range list {
			do(a)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failures = firstPause
		case forGood(err):
			return fmt.Errorf("handler %q: %w", name, err)
		default:
			w.Logger.Warn("no attempts can be taken; trying again", "handler", name, "cause", err)
			if !pause(ctx, failures) {
				return nil
			}
			failures = min(2*failures, longestPause)
		}
	}
}

// occupy waits for a free slot and takes all free slots, at most maxBatch. It returns 0 if ctx ends.
func occupy(ctx context.Context, slots chan struct{}) (n int) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < maxBatch; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

// take waits for attempts and returns at most n.
func (w *Worker) take(ctx context.Context, name string, n int) (list []Attempt, err error) {
	q := url.Values{"max": {strconv.Itoa(n)}, "wait": {text(pollWait)}, "lease": {text(w.Lease)}, "worker": {w.Name}}
	// The timeout is for a server that no longer answers.
	ctx, cancel := context.WithTimeout(ctx, pollWait+longestPause)
	defer cancel()
	var page struct {
		Items []Attempt `json:"items"`
	}
	if err := w.request(ctx, http.MethodGet, "/v1/handlers/"+url.PathEscape(name)+"/attempts", q, nil, &page); err != nil {
		return nil, err
	}
	return page.Items[:min(len(page.Items), n)], nil
}

// checkJSON returns an error, like the server's, if b is not JSON. what names b.
func checkJSON(what string, b []byte) error {
	if !json.Valid(b) || !utf8.Valid(b) {
		return fmt.Errorf("%s must be JSON in UTF-8, got %.80q", what, b)
	}
	return nil
}

// text returns duration text.
func text(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// perform performs an attempt, sends heartbeats in the meantime, and reports the outcome.
func (w *Worker) perform(drained context.Context, a Attempt) {
	a.progress = &progress{}
	log := w.Logger.With("handler", a.Handler, "run", a.Run, "step", a.Step, "attempt", a.Attempt)
	ctx, cancel := context.WithTimeout(drained, time.Duration(a.TimeoutMs)*time.Millisecond)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if a.AtMostOnce { // begin only if the server knows about it
		if _, err := w.beat(ctx, &a); err != nil {
			log.Warn("an attempt that may be made once was not begun", "cause", err)
			return
		}
	}
	// Heartbeats continue after a cancel until the function returns, otherwise it would lose its lease.
	beating, stop := context.WithCancel(drained)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.keep(beating, &a, end)
	}()
	out, err := w.call(ctx, a)
	if err == nil && len(out) > 0 {
		err = Fatal(checkJSON(fmt.Sprintf("the result of handler %q", a.Handler), out))
	}
	stop()
	<-done
	if errors.Is(context.Cause(ctx), ErrLost) {
		log.Warn("the lease of an attempt was lost, and its outcome is not recorded")
		return
	}
	if d := a.progress.take(); err != nil && d != nil { // the next attempt continues from these details
		a.progress.giveBack(d)
		if _, err := w.beat(context.WithoutCancel(ctx), &a); err != nil {
			log.Warn("the details of an attempt that failed could not be recorded", "cause", err)
		}
	}
	if err != nil && drained.Err() != nil { // another worker gets the attempt when the lease ends
		return
	}
	if err := w.handIn(context.WithoutCancel(ctx), &a, out, err); err != nil {
		log.Warn("the outcome of an attempt could not be handed in", "cause", err)
	}
}

// keep sends heartbeats until ctx is done. It ends the context of the attempt when the attempt is cancelled or its lease is
// lost. The lease is lost if the server says so, or cannot be reached for the length of a lease: then another worker may
// have the attempt.
func (w *Worker) keep(ctx context.Context, a *Attempt, end context.CancelCauseFunc) {
	drop := w.watch(ctx, end)
	defer func() { drop() }()
	for pause(ctx, w.Lease/beats) {
		next := w.watch(ctx, end) // starts before the server answers, so that the lease lasts a little longer on the server
		cancelled, err := w.beat(ctx, a)
		if err == nil {
			drop, next = next, drop
		}
		next()
		switch {
		case forGood(err):
			end(ErrLost)
			return
		case cancelled:
			end(ErrCancelled)
		}
	}
}

// watch ends the context of an attempt after one lease, unless the returned function is called first.
func (w *Worker) watch(ctx context.Context, end context.CancelCauseFunc) (drop func()) {
	lease, cancel := context.WithTimeoutCause(ctx, w.Lease, ErrLost)
	stop := context.AfterFunc(lease, func() {
		if errors.Is(context.Cause(lease), ErrLost) {
			end(ErrLost)
		}
	})
	return func() { stop(); cancel() }
}

func (w *Worker) path(a *Attempt, verb string) string {
	return "/v1/handlers/" + url.PathEscape(a.Handler) + "/attempts/" + url.PathEscape(a.Lease) + "/" + verb
}

func (w *Worker) beat(ctx context.Context, a *Attempt) (cancelled bool, err error) {
	var l struct {
		Cancelled bool `json:"cancelled"`
	}
	ctx, cancel := context.WithTimeout(ctx, w.Lease/beats)
	defer cancel()
	details := a.progress.take()
	err = w.request(ctx, http.MethodPost, w.path(a, "heartbeat"), url.Values{"lease": {text(w.Lease)}}, details, &l)
	if err != nil {
		a.progress.giveBack(details)
	}
	return l.Cancelled, err
}

// handIn reports the outcome of an attempt. It retries for at most one lease.
func (w *Worker) handIn(ctx context.Context, a *Attempt, out []byte, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, w.Lease)
	defer cancel()
	verb, body := "complete", out
	if failure != nil {
		verb, body = "fail", describe(failure)
	}
	for p := firstPause; ; p = min(2*p, longestPause) {
		err := w.request(ctx, http.MethodPost, w.path(a, verb), url.Values{}, body, nil)
		r, refused := errors.AsType[*refusal](err)
		switch {
		case refused && r.Status == http.StatusRequestEntityTooLarge && verb == "complete":
			verb, body = "fail", describe(Fatal(fmt.Errorf("the result cannot be recorded: %s", r.Detail)))
		case err == nil || forGood(err) || !pause(ctx, p):
			return err
		}
	}
}

// describe returns the request body for a failed attempt.
func describe(err error) []byte {
	var f struct {
		Message    string `json:"message"`
		Type       string `json:"type,omitempty"`
		Fatal      bool   `json:"fatal,omitempty"`
		RetryAfter string `json:"retry_after,omitempty"`
	}
	f.Message = fmt.Sprintf("%.*s", maxMessageBytes/4, err.Error()) // a character has at most four bytes
	_, f.Fatal = errors.AsType[fatal](err)
	if r, ok := errors.AsType[retryAfter](err); ok {
		f.RetryAfter = text(r.after)
	}
	cause := err
	for {
		if e, ok := cause.(fatal); ok { //nolint:errorlint // the outermost one
			cause = e.error
		} else if e, ok := cause.(retryAfter); ok { //nolint:errorlint // likewise
			cause = e.error
		} else {
			break
		}
	}
	f.Type = fmt.Sprintf("%T", cause)
	b, _ := json.Marshal(f) // strings always encode
	return b
}
