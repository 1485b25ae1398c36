package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/page"
)

// WithPage serves the web page at all paths that the API does not use, under the same prefix. People log in with the
// tokens of the API, or Access.Authenticate identifies them, and their actions are in its audit log. opts are further
// options of the page.
func WithPage(opts ...page.Option) Option {
	return func(s *API) { s.withPage, s.pageOpts = true, opts }
}

// makePage creates the page once all options are known.
func (s *API) makePage() {
	opts := []page.Option{page.WithAudit(s.auditPage), page.WithPrefix(s.prefix)}
	switch {
	case s.access.Authenticate != nil:
		opts = append(opts, page.WithAuthentication(s.pagePerson))
	case s.access.Open:
		opts = append(opts, page.WithoutLogin())
	default:
		opts = append(opts, page.WithTokens(s.pageCaller))
	}
	if s.access.Records != nil {
		opts = append(opts, page.WithAuditLog(s.access.Records))
	}
	if key := s.h.DerivedKey("page"); key != nil {
		opts = append(opts, page.WithKey(key))
	}
	if s.access.Proxy {
		opts = append(opts, page.WithSecureCookie())
	}
	s.page = page.New(s.h, append(opts, s.pageOpts...)...)
}

// pagePerson returns the user of the page if the program identifies its callers.
func (s *API) pagePerson(r *http.Request) (page.Caller, error) {
	t, err := s.access.Authenticate(r)
	if err != nil {
		return page.Caller{}, fmt.Errorf("%w: %w", page.ErrUnknown, err)
	}
	c := page.Caller{Token: t, Name: "caller " + cmp.Or(t.ID, t.Name)}
	if !s.rates.allow(c.Name) {
		s.brake.Delay(r.Context(), c.Name, 0)
		return page.Caller{}, page.ErrTooMany
	}
	sentBy(r, &caller{Token: t, name: c.Name})
	return c, nil
}

// ownPath reports whether a path belongs to the API.
func ownPath(path string) bool {
	for _, own := range []string{"/v1", "/healthz", "/readyz", "/schemas", metricsPath} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return true
		}
	}
	return strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/openapi")
}

// pageCaller returns the user of the page, within the caller's rate, which it shares with requests of the API.
func (s *API) pageCaller(r *http.Request, text string) (page.Caller, error) {
	c, err := s.holder(r.Context(), text)
	switch {
	case errors.Is(err, host.ErrUnauthorized) && !s.denials.allow(s.siteOf(r)):
		s.brake.Delay(r.Context(), s.siteOf(r), 0)
		return page.Caller{}, page.ErrTooMany
	case err == nil && !c.exempt && !s.rates.allow(c.name):
		s.brake.Delay(r.Context(), c.name, 0)
		return page.Caller{}, page.ErrTooMany
	case err != nil:
		return page.Caller{}, err
	}
	sentBy(r, c)
	return page.Caller{Token: c.Token, Name: c.name}, nil
}

// auditPage records an action on the page, as audit does for the API.
func (s *API) auditPage(r *http.Request, a page.Action) {
	if a.Status == http.StatusTooManyRequests {
		return
	}
	rec := Record{Time: clock.System().Now().UTC(), Caller: a.Caller.Name, Name: a.Caller.Token.Name, Address: s.addressOf(r),
		Scope: a.Scope, Endpoint: a.Pattern, Path: recorded(r.URL.Path), Query: recorded(r.URL.RawQuery),
		Namespace: a.Namespace, Status: a.Status,
		Refused: !a.Changed && unchanged[a.Status]}
	key := rec.Caller
	if rec.Caller == "" || s.access.Open {
		rec.Caller, key = rec.Address, s.siteOf(r)
	}
	if rec.Refused {
		var ok bool
		rec.Omitted, ok = s.refusals.allow(key)
		if !ok {
			return
		}
	}
	s.access.Audit(rec)
}
