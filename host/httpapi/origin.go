package httpapi

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// harden sets the headers of every answer. Modules write the answers of runs and hooks: a browser must not guess
// another type for them, run scripts in them, or show them inside another page.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// checkOrigin refuses requests of foreign web pages, and requests under a name that is not the server's: a page whose
// name was made to point here (DNS rebinding) has the same origin as its requests. Hooks accept all. It reports
// whether it has answered the request.
func (s *API) checkOrigin(w http.ResponseWriter, r *http.Request) (done bool) {
	if strings.HasPrefix(r.URL.Path, "/v1/hooks/") {
		return false
	}
	if s.checkHost(w, r) {
		return true
	}
	origin := r.Header.Get("Origin")
	switch {
	case slices.Contains(s.access.Origins, origin):
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		return false
	case origin != "" && !sameOrigin(r, origin), r.Header.Get("Sec-Fetch-Site") == "cross-site":
		page := "another site"
		if origin != "" {
			page = strconv.Quote(origin)
		}
		writeProblem(w, problem(http.StatusForbidden, "origin",
			"a web page of %s may not call this server; if it should, start the server with: wfhost serve --allow-origin ORIGIN", page))
		return true
	}
	return false
}

// checkHost refuses a request under a name that is not the server's. It reports whether it has answered the request.
func (s *API) checkHost(w http.ResponseWriter, r *http.Request) (done bool) {
	if s.access.AnyHost || s.isOwnName(r.Host) {
		return false
	}
	writeProblem(w, problem(http.StatusMisdirectedRequest, "host",
		"this server is not called %q; if that is a name of it, start it with: wfhost serve --host NAME", r.Host))
	return true
}

// isOwnName reports whether the Host of a request is the server's: an IP address, which an attacker cannot make point
// elsewhere, localhost, or a name that the operator gave.
func (s *API) isOwnName(hostport string) bool {
	name := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return net.ParseIP(name) != nil || strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(s.access.Hosts, func(own string) bool { return strings.EqualFold(own, name) })
}

// sameOrigin reports whether the origin of a request is the server itself.
func sameOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// checkContentType refuses bodies of types that a page may send to any server without a preflight, and of wrong types.
// Hooks take all types.
func checkContentType(r *http.Request, pattern string) error {
	if pattern == deliverPattern || r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	text := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(text)
	if _, ok := definitionTypes[kind]; ok && pattern == definePattern {
		return nil
	}
	wanted := "application/json"
	if pattern == definePattern {
		wanted += " or application/yaml"
	} else if pattern == uploadPattern || pattern == checkPattern {
		wanted = "application/wasm"
	} else if pattern == importPattern {
		wanted = archiveType
	}
	if err != nil || kind != wanted {
		return problem(http.StatusUnsupportedMediaType, "content_type", "the body must come with the header Content-Type: %s, got %q",
			wanted, text)
	}
	return nil
}

// replyTypes are the content types with which a hook may answer. A browser must never show what a workflow wrote as a
// page of the server: pages can do what the API can.
var replyTypes = []string{"application/json", "text/plain", "text/csv", "application/octet-stream"}

// replyType returns the content type of a hook's reply: the workflow's choice if it is one of replyTypes, else text.
func replyType(wanted string) string {
	kind, _, err := mime.ParseMediaType(wanted)
	if err == nil && slices.Contains(replyTypes, kind) && !strings.HasPrefix(kind, "text/") {
		return kind
	}
	if err != nil || !slices.Contains(replyTypes, kind) {
		kind = "text/plain"
	}
	return kind + "; charset=utf-8"
}
