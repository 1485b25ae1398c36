package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// WithPrefix serves the API under a path, such as /wfhost: its runs are at /wfhost/v1/runs. The path begins with a
// slash; a slash at its end is ignored. The requests include the prefix: no proxy strips it. Default: none.
func WithPrefix(path string) Option {
	return func(s *API) { s.prefix = strings.TrimSuffix(path, "/") }
}

// within returns a request without the prefix, nil if its path does not begin with it.
func within(r *http.Request, prefix string) *http.Request {
	path, ok := strings.CutPrefix(r.URL.Path, prefix)
	raw, rawOK := strings.CutPrefix(r.URL.RawPath, prefix)
	if !ok || !strings.HasPrefix(path, "/") || r.URL.RawPath != "" && !rawOK {
		return nil
	}
	out := new(http.Request)
	*out = *r
	out.URL = new(url.URL)
	*out.URL = *r.URL
	out.URL.Path, out.URL.RawPath = path, raw
	return out
}
