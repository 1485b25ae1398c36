package egress

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// Modes of redirects, as in the fetch standard.
const (
	// RedirectFollow follows up to maxRedirects redirects. It is the default.
	RedirectFollow = "follow"
	// RedirectManual returns a redirect as the answer.
	RedirectManual = "manual"
	// RedirectError fails the request at a redirect.
	RedirectError = "error"
)

// maxRedirects is the limit of the fetch standard.
const maxRedirects = 20

var (
	redirects = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect}
	// ofBody are the headers that describe a body. They are dropped with it.
	ofBody = []string{"Content-Encoding", "Content-Language", "Content-Location", "Content-Type", "Content-Length"}
	// ofOrigin are the headers that are dropped when a redirect leads to another origin.
	ofOrigin = []string{"Authorization", "Proxy-Authorization", "Cookie", "Host"}
	// refusedMethods are the methods that the fetch standard forbids: they show to a guest what only the host sent, or
	// open a tunnel.
	refusedMethods = []string{http.MethodTrace, http.MethodConnect, "TRACK"}
)

// checkMode refuses forbidden methods and unknown redirect modes.
func (r *Request) checkMode() error {
	if slices.Contains(refusedMethods, strings.ToUpper(r.Method)) {
		return abi.Errorf(abi.InvalidArgument, "a request must not have the method %s", strings.ToUpper(r.Method))
	}
	switch r.Redirect {
	case "", RedirectFollow, RedirectManual, RedirectError:
		return nil
	}
	return abi.Errorf(abi.InvalidArgument, "redirect must be follow, manual or error, got %.40q", r.Redirect)
}

// send sends a request and follows its redirects. It returns the last response; its Request has the final URL.
func (f *fetcher) send(t http.RoundTripper, req *http.Request, mode string) (*http.Response, error) {
	for n := 0; ; n++ {
		got, err := t.RoundTrip(req)
		if err != nil {
			return nil, f.failure(&url.Error{Op: req.Method, URL: shown(req.URL), Err: err})
		}
		to := got.Header.Get("Location")
		if !slices.Contains(redirects, got.StatusCode) || mode == RedirectManual {
			return got, nil
		}
		if mode == RedirectError {
			_ = got.Body.Close() // the response is not used
			return nil, failed("%s is redirected, and the request says that this is an error", shown(req.URL))
		}
		if to == "" || f.secret { // the secret was meant for this URL only
			return got, nil
		}
		_ = got.Body.Close()
		if n == maxRedirects {
			return nil, failed("stopped after %d redirects", maxRedirects)
		}
		req, err = f.redirected(req, got.StatusCode, to)
		if err != nil {
			return nil, err
		}
	}
}

// redirected returns the request that follows a redirect.
func (f *fetcher) redirected(req *http.Request, status int, location string) (*http.Request, error) {
	to, err := req.URL.Parse(location)
	if err != nil {
		return nil, failed("the redirect of %s is no URL", shown(req.URL))
	}
	if to.Fragment == "" {
		to.Fragment, to.RawFragment = req.URL.Fragment, req.URL.RawFragment
	}
	if !f.policy.allowed(to) {
		return nil, denied(to)
	}
	ctx := req.Context()
	next := req.Clone(ctx)
	next.URL, next.Host = to, ""
	post := (status == http.StatusMovedPermanently || status == http.StatusFound) && req.Method == http.MethodPost
	see := status == http.StatusSeeOther && req.Method != http.MethodGet && req.Method != http.MethodHead
	if post || see {
		next.Method, next.Body, next.GetBody, next.ContentLength = http.MethodGet, nil, nil, 0
		drop(next.Header, ofBody)
	} else if req.GetBody != nil {
		next.Body, err = req.GetBody()
		if err != nil {
			return nil, f.failure(err)
		}
	}
	if origin(to) != origin(req.URL) {
		drop(next.Header, ofOrigin)
	}
	return next, context.Cause(ctx)
}

func drop(h http.Header, names []string) {
	for _, name := range names {
		h.Del(name)
	}
}

// origin returns scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// failed returns the error of a request that failed on its way. It is retryable.
func failed(format string, args ...any) *abi.Error {
	e := abi.Errorf(abi.StepFailed, format, args...)
	e.Kind, e.Retryable = abi.KindError, true
	return e
}

// shown returns a URL without its fragment, which is never sent to a server.
func shown(u *url.URL) string {
	without := *u
	without.Fragment, without.RawFragment = "", ""
	return without.String()
}
