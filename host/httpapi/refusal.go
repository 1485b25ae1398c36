package httpapi

import (
	"errors"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// codes are those of requests that are refused before any operation sees them.
var codes = map[int]string{
	http.StatusBadRequest: "invalid", http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed",
	http.StatusNotAcceptable: "not_acceptable", http.StatusRequestTimeout: "timeout",
	http.StatusRequestEntityTooLarge: "limit", http.StatusUnsupportedMediaType: "content_type",
	http.StatusUnprocessableEntity: "invalid",
}

// schemaPattern is that of huma, which answers null for schemas that there are not.
const schemaPattern = "GET /schemas/{schema}"

// unreadBody is what huma says of a body that it cannot read; it takes that for a failure of the server.
const unreadBody = "cannot read request body"

// newError makes problems of what huma refuses, with a code as all others have. huma knows one function for the process.
func newError(status int, message string, details ...error) huma.StatusError {
	if status == http.StatusInternalServerError && message == unreadBody { // a bad chunk, or the end in the middle
		for _, err := range details {
			if p, ok := errors.AsType[*Problem](err); ok { // whose caller is no longer let in
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

// unrouted answers a request that no operation is for, with 404, or with 405 and the methods that there are. It reports
// whether it has.
func (s *API) unrouted(w http.ResponseWriter, r *http.Request) bool {
	nothing := func() { // the mux redirects to the cleaned path, with a page, before anybody is asked for a token
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

// schemasOf returns the names of the schemas that are described.
func schemasOf(api huma.API) map[string]bool {
	names := map[string]bool{}
	for name := range api.OpenAPI().Components.Schemas.Map() {
		names[name] = true
	}
	return names
}

// isClean reports whether an escaped path has no empty segments and none that are dots.
func isClean(escaped string) bool {
	return escaped == "/" || path.Clean("/"+escaped) == strings.TrimSuffix(escaped, "/")
}

// badBody is the problem of a body that could not be read. It says nothing of addresses, as errors of connections do.
func badBody(err error, limit int64) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return problem(http.StatusRequestEntityTooLarge, "limit", "the body is over the limit of %d bytes", limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem(http.StatusRequestTimeout, "timeout", "the body did not come within %v", bodyTime)
	}
	return newError(http.StatusInternalServerError, unreadBody, err)
}

// status keeps of an answer what its head says.
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
