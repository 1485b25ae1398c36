package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/metrics"
	"github.com/wfhost/wfhost/host/page"
)

// metricsConnections bounds the connections of the metrics listener: enough for a few Prometheus servers.
const metricsConnections = 16

// measures collects the metrics of serve: for Prometheus, unless Metrics is nil, and for the overview page.
type measures struct {
	*metrics.Metrics
	rates *page.Rates
}

func (c *serveCmd) newMetrics() (measures, error) {
	if c.NoMetrics {
		return measures{rates: page.NewRates(nil)}, nil
	}
	m, err := metrics.New(metrics.Options{Version: buildVersion()})
	return measures{m, page.NewRates(nil)}, err
}

// events returns the event callbacks for the host.
func (m measures) events() host.Events {
	if m.Metrics == nil {
		return m.rates.Events()
	}
	return host.JoinEvents(m.Events(), m.rates.Events())
}

// of starts to measure a host.
func (m measures) of(h *host.Host) measures {
	if m.Metrics != nil {
		m.Watch(h)
	}
	return m
}

// handler returns the handler for scrapes, nil without metrics.
func (m measures) handler() http.Handler {
	if m.Metrics == nil {
		return nil
	}
	return m.Handler()
}

// checkMetrics refuses a metrics address that other machines can reach, unless it requires a client certificate. The address
// needs no token, and its metrics name the namespaces, workflows and handlers of all tenants. TLS alone would not protect
// them. Callers with a token can scrape the address of --listen instead.
func (c *serveCmd) checkMetrics() error {
	if c.MetricsListen == "" {
		return nil
	}
	hostname, _, err := net.SplitHostPort(c.MetricsListen)
	switch {
	case err != nil:
		return &exitCode{exitUsage, fmt.Errorf("--metrics-listen must be an address and a port, got %q", c.MetricsListen)}
	case c.NoMetrics:
		return &exitCode{exitUsage, errors.New("--metrics-listen and --no-metrics exclude each other")}
	case !isLoopback(hostname) && c.ClientCA == "":
		return &exitCode{exitUsage, fmt.Errorf("others can reach %q, where --metrics-listen asks for no token: give --client-ca, "+
			"--tls-cert and --tls-key, so that they need a certificate, or listen on a loopback address; /metrics of --listen "+
			"takes a token", c.MetricsListen)}
	}
	return nil
}

// serveMetrics answers scrapes at the address of --metrics-listen, if given, until stop is called. at is the actual address.
func (c *serveCmd) serveMetrics(ctx context.Context, m measures, access httpapi.Access, log *slog.Logger) (stop func(), at string,
	err error) {
	if c.MetricsListen == "" {
		return func() {}, "", nil
	}
	hostname, _, err := net.SplitHostPort(c.MetricsListen)
	if err != nil {
		return nil, "", err
	}
	scheme, secure := "http", !isLoopback(hostname)
	if secure {
		scheme = "https"
	}
	access.AnyHost = secure // the certificate names the server
	l, err := c.listenOn(ctx, c.MetricsListen, metricsConnections, secure, log)
	if err != nil {
		return nil, "", fmt.Errorf("--metrics-listen: %w", err)
	}
	srv := &http.Server{Handler: httpapi.MetricsOnly(m.handler(), access), ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "address", l.Addr(), "cause", err)
		}
	}()
	return func() {
		_ = srv.Close() // an interrupted scrape is repeated
		<-done
	}, fmt.Sprintf("%s://%s/metrics", scheme, l.Addr()), nil
}
