package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/traces"
)

// traceFlags say where traces go.
type traceFlags struct {
	OTLPEndpoint string  `name:"otlp-endpoint" help:"Collector that takes traces, OTLP over HTTP." placeholder:"URL"`
	TraceRatio   float64 `help:"Part of the traces that it gets, above 0 and at most 1." default:"1"`
}

// Limits of telling the collector.
const (
	// tracesTime bounds how long the end of the server waits for the collector.
	tracesTime = 5 * time.Second
	// tracesLogTime is how often the log has at most that the collector does not answer: each batch is lost with an error.
	tracesLogTime = time.Minute
)

// tracesPath is what a collector's address has behind it unless it has a path.
const tracesPath = "/v1/traces"

// check refuses an endpoint that cannot be.
func (f *traceFlags) check() error {
	if !(f.TraceRatio > 0 && f.TraceRatio <= 1) {
		return &exitCode{exitUsage, fmt.Errorf("--trace-ratio must be above 0 and at most 1, got %g", f.TraceRatio)}
	}
	if f.OTLPEndpoint == "" {
		return nil
	}
	u, err := url.Parse(f.OTLPEndpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return &exitCode{exitUsage, errors.New("--otlp-endpoint must be a URL such as http://localhost:4318, without a name and " +
			"password: headers are for OTEL_EXPORTER_OTLP_HEADERS")}
	}
	return nil
}

// traceHeader returns the header that has a run belong to a trace. A server ignores what is no such header, as the standard has
// it; who types it wants to know.
func traceHeader(traceParent string) (http.Header, error) {
	h := http.Header{}
	if traceParent == "" {
		return h, nil
	}
	h.Set("Traceparent", traceParent)
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h))
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil, &exitCode{exitUsage, fmt.Errorf("--traceparent must be such as "+
			"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, got %.80q", traceParent)}
	}
	return h, nil
}

// tracing is what tells the collector; without Traces there is none.
type tracing struct {
	*traces.Traces
	log *slog.Logger
}

// open begins to tell the collector, if there is one. The variables of OpenTelemetry count for what no flag says: headers,
// certificates, time-outs, and the name of the service.
func (f *traceFlags) open(ctx context.Context, log *slog.Logger) (t tracing, err error) {
	var opts []otlptracehttp.Option
	disabled, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED"))
	switch {
	case f.OTLPEndpoint != "":
		u, err := url.Parse(f.OTLPEndpoint)
		if err != nil {
			return t, err
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = tracesPath
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(u.String()))
	case disabled, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return t, nil
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return t, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(&traceErrors{log: log})
	t.log = log
	t.Traces, err = traces.New(traces.Options{Exporter: exporter, Ratio: f.TraceRatio})
	return t, err
}

// events returns what the host is to call.
func (t tracing) events() host.Events {
	if t.Traces == nil {
		return host.Events{}
	}
	return t.Events()
}

// close tells the collector what is left.
func (t tracing) close() {
	if t.Traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracesTime)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		t.log.Warn("the last spans did not reach the collector", "cause", err)
	}
}

// traceErrors logs that the collector does not answer.
type traceErrors struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
	lost int // errors since then
}

// Handle is called for each batch that is lost, among others.
func (e *traceErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); e.last.IsZero() || now.Sub(e.last) >= tracesLogTime {
		e.log.Warn("spans do not reach the collector", "cause", err, "since", e.lost)
		e.last, e.lost = now, 0
		return
	}
	e.lost++
}
