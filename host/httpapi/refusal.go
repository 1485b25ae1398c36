package httpapi

import (
	"errors"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// codes has the codes of requests that are refused before an operation sees them.
var codes = map[int]string{
	http.StatusBadRequest: "invalid", http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed",
	http.StatusNotAcceptable: "not_acceptable", http.StatusRequestTimeout: "timeout",
	http.StatusRequestEntityTooLarge: "limit", http.StatusUnsupportedMediaType: "content_type",
	http.StatusUnprocessableEntity: "invalid",
}

// schemaPattern is the pattern of huma's handler for schemas, which answers null for unknown ones.
const schemaPattern = "GET /schemas/{schema}"

// unreadBody is huma's message about a body that it cannot read, which it takes for a server error.
const unreadBody = "cannot read request body"

// newError converts huma's errors to problems with a code. huma has one such function per process.
func newError(status int, message string, details ...error) huma.StatusError {
	if status == http.StatusInternalServerError && message == unreadBody { // a bad chunk, or a truncated body
		for _, err := range details {
			if p, ok := errors.AsType[*Problem](err); ok { // the caller is not admitted any more
				return p
			}
		}
		status, message, details = http.StatusBadRequest, "the body cannot be read to its end: its encoding is not that of HTTP", nil
	}
	p := &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: codes[status], Detail: message}
	if p.Code == "" {
		p.Code = "internal"
	}
	for _, err := range details {
		if err == nil {
			continue
		}
		text := err.Error()
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			detail := d.ErrorDetail()
			text = detail.Message
			if detail.Location != "" {
				text = detail.Location + ": " + text
			}
		}
		p.Detail += ": " + text
	}
	return p
}

func init() { huma.NewError = newError }

// unrouted answers a request without a matching operation, with 404, or with 405 and the allowed methods. It reports
// whether it has.
func (s *API) unrouted(w http.ResponseWriter, r *http.Request) bool {
	nothing := func() { // the mux would redirect to the cleaned path, with a page, before the token is checked
		writeProblem(w, problem(http.StatusNotFound, codes[http.StatusNotFound], "there is nothing at %.200q", r.URL.Path))
	}
	if !isClean(r.URL.EscapedPath()) {
		nothing()
		return true
	}
	h, pattern := s.mux.Handler(r)
	if pattern == schemaPattern && !s.schemas[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/schemas/"), ".json")] {
		nothing()
		return true
	}
	if pattern != "" {
		return false
	}
	var seen status
	h.ServeHTTP(&seen, r)
	if allow := seen.Header().Get("Allow"); seen.code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		writeProblem(w, problem(seen.code, codes[seen.code], "%s is not possible at %.200q, only %s", r.Method, r.URL.Path, allow))
		return true
	}
	nothing()
	return true
}

// schemasOf returns the names of the described schemas.
func schemasOf(api huma.API) map[string]bool {
	names := map[string]bool{}
	for name := range api.OpenAPI().Components.Schemas.Map() {
		names[name] = true
	}
	return names
}

// isClean reports whether an escaped path has no empty segments and no dot segments.
func isClean(escaped string) bool {
	return escaped == "/" || path.Clean("/"+escaped) == strings.TrimSuffix(escaped, "/")
}

// badBody returns the problem of a body that could not be read. It omits addresses, which errors of connections name.
func badBody(err error, limit int64) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return problem(http.StatusRequestEntityTooLarge, "limit", "the body is over the limit of %d bytes", limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, "timeout", "the body did not come within %v", bodyTime)
	}
	return newError(http.StatusInternalServerError, unreadBody, err)
}

// status is a ResponseWriter that keeps only the header and the status.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *status) WriteHeader(code int) { s.code = code }

func (s *status) Write(b []byte) (int, error) { return len(b), nil }
