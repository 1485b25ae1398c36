package httpapi

import "net/http"

// metricsPattern is the endpoint that Prometheus scrapes.
const metricsPattern = "GET " + metricsPath

const metricsPath = "/metrics"

// WithMetrics answers GET /metrics by a handler such as that of package metrics. It is for tokens of all namespaces
// that have the scope read, as its answer names all namespaces. Default: there is nothing at /metrics.
func WithMetrics(metrics http.Handler) Option {
	return func(s *API) { s.metrics = metrics }
}

// scraped answers Prometheus.
func (s *API) scraped(w http.ResponseWriter, r *http.Request) {
	if s.metrics == nil {
		writeProblem(w, problem(http.StatusNotFound, "not_found", "this server measures nothing: it was started without metrics"))
		return
	}
	s.metrics.ServeHTTP(w, r)
}

// MetricsOnly returns a handler for a listener of its own, which answers GET /metrics without a token, and nothing
// else. A caller that reaches the listener can read the names of namespaces, workflows and handlers. Of access it takes
// Hosts and AnyHost: as the API does, it refuses foreign web pages and names that are not the server's.
func MetricsOnly(metrics http.Handler, access Access) http.Handler {
	s, waiting := &API{access: Access{Hosts: access.Hosts, AnyHost: access.AnyHost}}, newBacklog(maxBacklog)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w, r, end := waiting.pace(rw, r)
		defer end()
		harden(w.Header())
		switch {
		case s.checkOrigin(w, r):
		case r.URL.Path != metricsPath:
			writeProblem(w, problem(http.StatusNotFound, "not_found", "there is nothing at %.200q, only at %s", r.URL.Path, metricsPath))
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			writeProblem(w, problem(http.StatusMethodNotAllowed, "method_not_allowed", "%s is not possible at %s, only GET and HEAD",
				r.Method, metricsPath))
		default:
			metrics.ServeHTTP(w, r)
		}
	})
}
