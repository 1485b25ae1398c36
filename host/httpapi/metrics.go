package httpapi

import "net/http"

// metricsPattern is the endpoint that Prometheus scrapes.
const metricsPattern = "GET " + metricsPath

const metricsPath = "/metrics"

// WithMetrics serves GET /metrics by a handler such as that of package metrics. It needs a token of all namespaces
// with the scope read, because its answer names all namespaces. Default: /metrics is not served.
func WithMetrics(metrics http.Handler) Option {
	return func(s *API) { s.metrics = metrics }
}

// scraped answers a scrape by Prometheus.
func (s *API) scraped(w http.ResponseWriter, r *http.Request) {
	if s.metrics == nil {
		writeProblem(w, problem(http.StatusNotFound, "not_found", "this server measures nothing: it was started without metrics"))
		return
	}
	s.metrics.ServeHTTP(w, r)
}

// MetricsOnly returns a handler for a separate listener, which answers only GET /metrics, without a token. Callers
// that reach the listener can read the names of namespaces, workflows and handlers. From access it uses Hosts and
// AnyHost: as the API does, it refuses foreign web pages and names that are not the server's.
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
