package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// lookAgainEvery is the interval of checks whether the caller of a request in progress would still be admitted: short
// enough after revoking a stolen token, and long enough that a thousand streams look up only 200 tokens per second.
const lookAgainEvery = 5 * time.Second

// attended is a request in progress whose token may be revoked or expire.
type attended struct {
	s   *API
	r   *http.Request // as it was admitted
	c   *caller
	end context.CancelCauseFunc // cancels the request's context

	mu   sync.Mutex // guards the fields below
	done bool
	stop func() // of the timer
}

// attend cancels the context of a request as soon as its caller would no longer be admitted: the token was revoked,
// has expired, or allows less. The cause of the context is then a problem. out is the request to pass on. r is out
// with that context; the caller calls leave when the request ends.
func (s *API) attend(admitted, out *http.Request, scope host.Scope, c *caller) (r *http.Request, leave func()) {
	if scope == public || c.exempt || passedOn(admitted) != nil {
		return out, func() {}
	}
	ctx, cancel := context.WithCancelCause(out.Context())
	a := &attended{s: s, r: admitted, c: c, end: cancel}
	if t, ok := out.Body.(*timed); ok {
		t.of = ctx
	}
	a.wait()
	return out.WithContext(ctx), a.leave
}

// wait schedules the next check.
func (a *attended) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		a.stop = clock.AfterFunc(a.s.clock, lookAgainEvery, a.look)
	}
}

func (a *attended) look() {
	err := a.s.stillIn(a.r, a.c)
	if err == nil {
		a.wait()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.end(err)
	if t, ok := a.r.Body.(*timed); ok {
		t.interrupt()
	}
}

func (a *attended) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
	a.stop()
	a.end(nil)
}

// stillIn returns a problem if the caller of a request would not be admitted any more, or be allowed less.
func (s *API) stillIn(r *http.Request, c *caller) error {
	var t host.Token
	var err error
	if s.access.Authenticate != nil {
		again := r.WithContext(r.Context())
		again.Body = http.NoBody // the handler of the request reads the body
		t, err = s.access.Authenticate(again)
	} else {
		text, _ := bearer(r)
		t, err = s.h.Tokens().Authenticate(r.Context(), text)
		if err != nil && !errors.Is(err, host.ErrUnauthorized) {
			return failed(err)
		}
	}
	if err != nil {
		return problem(http.StatusUnauthorized, "unauthorized", "the request has ended: %v", err)
	}
	for _, scope := range c.Scopes {
		if t.ID != c.ID || t.Namespace != c.Namespace || !slices.Contains(t.Scopes, scope) {
			return problem(http.StatusUnauthorized, "unauthorized",
				"the request has ended: the caller is another one, or may do less, than when it began")
		}
	}
	return nil
}

// endOf returns why the caller of a request is not admitted any more, nil while it is.
func endOf(ctx context.Context) error {
	if p, ok := errors.AsType[*Problem](context.Cause(ctx)); ok {
		return p
	}
	return nil
}
