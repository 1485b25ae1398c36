package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

const (
	// doctorPatience is how long the server may take to answer.
	doctorPatience = 10 * time.Second
	// clockSkew is how far the clocks of server and caller may differ. The server's answer has whole seconds.
	clockSkew = 3 * time.Second
	// maxReadiness bounds the answer to /readyz.
	maxReadiness = 64 << 10
)

// ownBuild describes this binary.
func ownBuild() doctor.Check {
	b := httpapi.BuildOf(buildVersion(), buildCommit())
	return doctor.Check{Name: "version", Status: doctor.OK, Values: map[string]any{"build": b}, Found: fmt.Sprintf(
		"wfhost %s, ABI %s, store format %d, journal format %d, %s, %s", b.Version, b.ABI, b.Store, b.Journal, b.Go, b.System)}
}

// askServer checks whether the server answers, is ready and accepts the token, and which version it has. expected says
// whether a missing server is a failure.
func (g *globals) askServer(expected bool) []doctor.Check {
	ctx, cancel := context.WithTimeout(g.ctx, doctorPatience)
	defer cancel()
	asked := time.Now()
	r, at, err := g.readiness(ctx)
	if err != nil {
		c := doctor.Check{Name: "server", Status: doctor.Skip, Found: err.Error()}
		if expected {
			c.Status, c.Advice = doctor.Fail, "start it, or say with --server or --env where it is; its log says why it ended"
		}
		return []doctor.Check{c}
	}
	checks := []doctor.Check{judgeReadiness(g.Server, r)}
	if !at.IsZero() {
		checks = append(checks, judgeSkew(at, asked, time.Now()))
	}
	if r.Status == httpapi.Starting {
		return checks
	}
	api, err := g.api()
	var b client.Build
	if err == nil {
		b, err = api.Build(ctx)
	}
	return append(checks, judgeBuild(b, err)...)
}

// readiness asks the server whether it is ready, without a token. at is the server's time.
func (g *globals) readiness(ctx context.Context) (r httpapi.Readiness, at time.Time, err error) {
	h, err := g.newClient()
	if err != nil {
		return r, at, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(g.Server, "/")+"/readyz", nil)
	if err != nil {
		return r, at, err
	}
	res, err := h.Do(req)
	if err != nil {
		return r, at, g.unreachable(g.ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // the body has been read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReadiness))
	if err != nil {
		return r, at, g.unreachable(g.ctx, err)
	}
	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		at = date
	}
	if json.Unmarshal(text, &r) == nil && r.Status != "" {
		return r, at, nil
	}
	if res.StatusCode == http.StatusOK && strings.HasPrefix(string(text), "ok") { // servers before v0.1.0
		return httpapi.Readiness{Status: httpapi.Ready}, at, nil
	}
	return r, at, fmt.Errorf("%s answers, and is no server of wfhost: GET /readyz is %s", g.Server, res.Status)
}

func judgeReadiness(server string, r httpapi.Readiness) doctor.Check {
	c := doctor.Check{Name: "server", Status: doctor.OK, Found: server + " is " + r.Status, Values: map[string]any{"readiness": r}}
	if r.Detail != "" {
		c.Found += ": " + r.Detail
	}
	switch {
	case r.DiskFull:
		c.Status, c.Advice = doctor.Warn, "make room: runs go on, and nothing new is accepted (docs/operate/disk.md)"
	case r.Status == httpapi.Ready:
	case r.Status == httpapi.Starting:
		c.Status, c.Advice = doctor.Warn, "wait: it comes by itself"
	case r.Status == httpapi.Draining:
		c.Status, c.Advice = doctor.Warn, "wait: it ends, and the next server takes over"
	default:
		c.Status, c.Advice = doctor.Fail, "read its log, mend the disk, and start it again (docs/operate/disk.md)"
	}
	return c
}

// judgeSkew compares the server's time with this machine's times before and after the request.
func judgeSkew(at, before, after time.Time) doctor.Check {
	var skew time.Duration
	switch early, late := before.Add(-clockSkew), after.Add(clockSkew); {
	case at.Before(early):
		skew = at.Sub(before)
	case at.After(late):
		skew = at.Sub(after)
	default:
		return doctor.Check{Name: "server clock", Status: doctor.OK, Found: "it shows what this machine's does, give or take " +
			clockSkew.String()}
	}
	return doctor.Check{Name: "server clock", Status: doctor.Warn, Values: map[string]any{"skew_ms": skew.Milliseconds()},
		Found:  fmt.Sprintf("it is %v off this machine's: it shows %s", skew.Round(time.Second), at.UTC().Format(time.RFC3339)),
		Advice: "have a time server keep both: runs wake by the server's"}
}

// judgeBuild reports whether the token was accepted, and compares the server with this binary.
func judgeBuild(b client.Build, err error) []doctor.Check {
	token := doctor.Check{Name: "token", Status: doctor.OK, Found: "the server accepts it"}
	e, answered := errors.AsType[*client.Error](err)
	version := doctor.Check{Name: "server version", Status: doctor.Skip, Found: "the server does not say which it is"}
	switch {
	case answered && e.Status == http.StatusUnauthorized:
		token.Status, token.Found = doctor.Fail, err.Error()
		token.Advice = "give --token-file, --env or WFHOST_TOKEN (docs/operate/access.md)"
		return []doctor.Check{token}
	case answered && e.Status == http.StatusForbidden:
		token.Found = "the server accepts it, and it may not read: " + err.Error()
		return []doctor.Check{token, version}
	case answered && e.Status == http.StatusNotFound: // servers before v0.1.0
		version.Status, version.Advice = doctor.Warn, "it is of an earlier release than this command: upgrade it, or use its command"
		return []doctor.Check{token, version}
	case err != nil:
		token.Status, token.Found, token.Advice = doctor.Fail, err.Error(), "read the log of the server"
		return []doctor.Check{token}
	}
	version.Status, version.Found = doctor.OK, fmt.Sprintf("wfhost %s, as this command", b.Version)
	version.Values = map[string]any{"build": b}
	own := buildVersion()
	switch {
	case b.ABI != abi.ImportModule || b.Store != host.StoreFormat:
		version.Status = doctor.Warn
		version.Found = fmt.Sprintf("wfhost %s with ABI %s and store format %d; this command is %s with %s and %d", b.Version, b.ABI,
			b.Store, own, abi.ImportModule, host.StoreFormat)
		version.Advice = "use the command of the server's release for its data and modules"
	case b.Version != own || b.Commit != buildCommit():
		version.Status = doctor.Warn
		version.Found = fmt.Sprintf("wfhost %s; this command is %s", b.Version, own)
		version.Advice = "use the same release on both sides, but while you upgrade"
	}
	if b.System != runtime.GOOS+"/"+runtime.GOARCH {
		version.Found += ", on " + b.System
	}
	return []doctor.Check{token, version}
}
