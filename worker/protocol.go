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

// Attempt is an attempt of a step, as the server hands it out.
type Attempt struct {
	Lease          string    `json:"lease"`
	Until          time.Time `json:"until"`      // the end of the lease, unless a heartbeat comes
	Deadline       time.Time `json:"deadline"`   // the end of the attempt, by the step's timeout
	TimeoutMs      int64     `json:"timeout_ms"` // from when it was taken to its deadline: clocks may differ
	Handler        string    `json:"handler"`
	Namespace      string    `json:"namespace"`
	Run            string    `json:"run"`
	Workflow       string    `json:"workflow"`
	Version        uint32    `json:"version"`
	Step           string    `json:"step"`
	Attempt        int       `json:"attempt"`      // from 1
	Attempts       int       `json:"attempts"`     // at most; 0 = no limit
	Delivery       int       `json:"delivery"`     // more than 1 after a worker was lost
	AtMostOnce     bool      `json:"at_most_once"` // it is not made again if this worker is lost
	IdempotencyKey string    `json:"idempotency_key"`
	TraceParent    string    `json:"traceparent"`

	Input       json.RawMessage `json:"input"`        // if it is JSON
	InputBase64 []byte          `json:"input_base64"` // if it is not
	Details     json.RawMessage `json:"details"`      // what Heartbeat has recorded last, in this attempt or one before
	progress    *progress
}

// progress is what the next heartbeat of an attempt records.
type progress struct {
	mu      sync.Mutex
	details []byte // nil = nothing new
}

func (p *progress) set(details []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.details = details
}

// take returns what is to be sent, once.
func (p *progress) take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.details
	p.details = nil
	return d
}

// giveBack has details sent again that did not arrive, unless there are newer ones.
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
	// pollWait is how long the server holds a request for attempts: less than proxies cut off.
	pollWait = 30 * time.Second
	// firstPause and longestPause bound the pauses between requests that fail, which double.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	// maxAnswerBytes bounds an answer: 4 MiB of inputs, or one of 1 MiB, escaped as JSON or base64.
	maxAnswerBytes = 32 << 20
	// maxBatch is how many attempts the server hands out at once.
	maxBatch = 100
	// beats is how many heartbeats fit into a lease, so that one that is late or lost does not cost it.
	beats = 3
	// maxProblemBytes bounds what is read of a refusal, and maxMessageBytes what is sent of an error: the server takes no more.
	maxProblemBytes, maxMessageBytes = 64 << 10, 16 << 10
)

// refusal is an answer of the server that is not 2xx.
type refusal struct {
	Status int
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (e *refusal) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.Status, e.Detail)
}

// forGood reports whether an error is the same one each time.
func forGood(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.Status >= 300 && r.Status < 500 && r.Status != http.StatusRequestTimeout && r.Status != http.StatusTooManyRequests
}

// request makes a request, and decodes the answer if out is not nil.
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
	defer func() { _ = res.Body.Close() }() // only read
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

// pause waits, and reports whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	late, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-late.Done()
	return ctx.Err() == nil
}

// poll takes attempts of a handler until ctx is done, each into a slot, which do gives back. It returns an error if the
// server refuses for good.
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

// occupy waits for a free slot, and takes all that are free. It returns 0 if ctx ends.
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

// take waits for attempts, at most n.
func (w *Worker) take(ctx context.Context, name string, n int) (list []Attempt, err error) {
	q := url.Values{"max": {strconv.Itoa(n)}, "wait": {text(pollWait)}, "lease": {text(w.Lease)}, "worker": {w.Name}}
	// A server that does not answer is not waited for: it may have gone.
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

// checkJSON says what the server would say of what is no JSON. what names it.
func checkJSON(what string, b []byte) error {
	if !json.Valid(b) || !utf8.Valid(b) {
		return fmt.Errorf("%s must be JSON in UTF-8, got %.80q", what, b)
	}
	return nil
}

// text returns duration text.
func text(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// perform performs an attempt, with heartbeats meanwhile, and hands in what came of it.
func (w *Worker) perform(drained context.Context, a Attempt) {
	a.progress = &progress{}
	log := w.Logger.With("handler", a.Handler, "run", a.Run, "step", a.Step, "attempt", a.Attempt)
	ctx, cancel := context.WithTimeout(drained, time.Duration(a.TimeoutMs)*time.Millisecond)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if a.AtMostOnce { // it is begun only if the server knows that
		if _, err := w.beat(ctx, &a); err != nil {
			log.Warn("an attempt that may be made once was not begun", "cause", err)
			return
		}
	}
	// Heartbeats continue after a cancel, for as long as the function takes to come to an end: else it would lose its lease.
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
	if d := a.progress.take(); err != nil && d != nil { // the next attempt continues from there
		a.progress.giveBack(d)
		if _, err := w.beat(context.WithoutCancel(ctx), &a); err != nil {
			log.Warn("the details of an attempt that failed could not be recorded", "cause", err)
		}
	}
	if err != nil && drained.Err() != nil { // another worker gets it when the lease has ended
		return
	}
	if err := w.handIn(context.WithoutCancel(ctx), &a, out, err); err != nil {
		log.Warn("the outcome of an attempt could not be handed in", "cause", err)
	}
}

// keep sends heartbeats until ctx is done. It ends the context of the attempt when that is cancelled, and when the
// lease is lost: the server says so, or has not been reached for as long as the lease lasts, so that another worker may
// have the attempt.
func (w *Worker) keep(ctx context.Context, a *Attempt, end context.CancelCauseFunc) {
	drop := w.watch(ctx, end)
	defer func() { drop() }()
	for pause(ctx, w.Lease/beats) {
		next := w.watch(ctx, end) // from before the server answers, so that the lease lasts a little longer there
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

// watch ends the context of an attempt when a lease has passed, unless the returned function is called before.
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

// handIn hands in the outcome of an attempt, and tries for as long as the lease may last.
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

// describe returns the body that says how an attempt has failed.
func describe(err error) []byte {
	var f struct {
		Message    string `json:"message"`
		Type       string `json:"type,omitempty"`
		Fatal      bool   `json:"fatal,omitempty"`
		RetryAfter string `json:"retry_after,omitempty"`
	}
	f.Message = fmt.Sprintf("%.*s", maxMessageBytes/4, err.Error()) // characters of at most four bytes
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
	b, _ := json.Marshal(f) // strings can be marshalled
	return b
}
