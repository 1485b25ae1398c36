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

// traceFlags configure the export of traces.
type traceFlags struct {
	OTLPEndpoint string  `name:"otlp-endpoint" help:"Collector that takes traces, OTLP over HTTP." placeholder:"URL"`
	TraceRatio   float64 `help:"Part of the traces that it gets, above 0 and at most 1." default:"1"`
}

// Limits of the export to the collector.
const (
	// tracesTime is how long the server waits for the collector when it ends.
	tracesTime = 5 * time.Second
	// tracesLogTime is the shortest interval between log lines about an absent collector. Each lost batch is an error.
	tracesLogTime = time.Minute
)

// tracesPath is appended to a collector's address without a path.
const tracesPath = "/v1/traces"

// check refuses an invalid endpoint.
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

// traceHeader returns the header that makes a run part of a trace. A server ignores an invalid header, as the standard demands;
// the command reports it.
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

// tracing exports traces to the collector. Without Traces it does nothing.
type tracing struct {
	*traces.Traces
	log *slog.Logger
}

// open starts the export, if a collector is configured. The OpenTelemetry variables apply to everything without a flag:
// headers, certificates, timeouts and the service name.
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

// events returns the event callbacks for the host.
func (t tracing) events() host.Events {
	if t.Traces == nil {
		return host.Events{}
	}
	return t.Events()
}

// close sends the remaining spans to the collector.
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

// traceErrors logs errors of the collector.
type traceErrors struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
	lost int // errors since the last log line
}

// Handle is called for each lost batch and for other errors.
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
