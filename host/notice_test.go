package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// logging returns a host that logs into a buffer. Read the buffer after the host has stopped.
func logging(t *testing.T, opts ...func(*host.Config)) (*hosttest.Host, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for _, o := range opts {
			o(c)
		}
	})), &log
}

// endsWith returns a workflow that ends with a message.
func endsWith(message string) []byte {
	m := wasmgen.New(1).Text(fmt.Sprintf(`{"code":"STOLEN","message":%q}`, message)).Call(abi.FnFail).Drop()
	return m.I32(1).Export(abi.ExportRun).Bytes()
}

// TestNoticeOfFailedRuns: the log has each failed run, with its error.
func TestNoticeOfFailedRuns(t *testing.T) {
	h, log := logging(t)
	team, err := h.Namespace(ctx, "team")
	do(t, err)
	_, err = team.Upload(ctx, "bad", endsWith("the card\nis stolen"))
	do(t, err)
	_, err = team.StartRaw(ctx, "bad", nil, host.WithRunID("order-1"))
	do(t, err)
	_, err = team.Wait(ctx, "order-1")
	do(t, err)
	h.Stop()
	for _, part := range []string{"level=WARN", `msg="run has failed"`, "run=order-1", "workflow=bad", "version=1", "namespace=team",
		`code=STOLEN`, `cause="the card\nis stolen"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, log.String())
		}
	}
	if n := strings.Count(log.String(), "run="); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// TestNoticeOfStuckRuns retries a run under code that diverges: the log says so in one line.
func TestNoticeOfStuckRuns(t *testing.T) {
	h, log := logging(t)
	naps := func(name string) []byte {
		m := wasmgen.New(1).Text(name).I64(1).Call(abi.FnSleep).Drop().Text(`{"code":"TIRED","message":"still tired"}`).Call(abi.FnFail).Drop()
		return m.I32(1).Export(abi.ExportRun).Bytes()
	}
	for _, name := range []string{"short", "long"} {
		_, err := h.Upload(ctx, "nap", naps(name))
		do(t, err)
	}
	_, err := h.StartRaw(ctx, "nap", nil, host.WithRunID("r"), host.WithVersion(1))
	do(t, err)
	h.Finish("r")
	do(t, h.Retry(ctx, "r", 2))
	want(t, h.Finish("r").Status, host.Stuck)
	h.Stop()
	if n := strings.Count(log.String(), "run is stuck"); n != 1 || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%d lines: %s", n, log.String())
	}
	for _, part := range []string{`level=WARN msg="run is stuck" run=r workflow=nap version=2`, `the journal has sleep \"short\"`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, log.String())
		}
	}
}

// TestNoticeOfFailedSteps has the last attempt of a step fail while its workflow continues.
func TestNoticeOfFailedSteps(t *testing.T) {
	var log bytes.Buffer
	l := newLab(t, hosttest.WithConfig(func(c *host.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }),
		hosttest.WithHandlers(func(h *host.Host) {
			host.HandleStep(h, "charge", func(context.Context, string) (string, error) { return "", errors.New("declined") })
		}))
	id := l.begin("call", request{Handler: "host/charge", Catch: true, Options: map[string]any{"attempts": 3}})
	want(t, l.Finish(id).Status, host.Completed)
	l.Stop()
	if n := strings.Count(log.String(), "step has failed for good"); n != 1 {
		t.Fatalf("%d lines: %s", n, log.String())
	}
	for _, part := range []string{"run=" + id, "workflow=", "step=", "attempts=3", "cause=declined"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, log.String())
		}
	}
}

// TestNoticeWithoutCauses omits messages of workflows when payloads are encrypted.
func TestNoticeWithoutCauses(t *testing.T) {
	h, log := logging(t, func(c *host.Config) {
		c.Codec = keyring(t, keyLine("k", 1))
	})
	_, err := h.Upload(ctx, "bad", endsWith("the card is stolen"))
	do(t, err)
	_, err = h.StartRaw(ctx, "bad", nil, host.WithRunID("order-1"))
	do(t, err)
	_, err = h.Wait(ctx, "order-1")
	do(t, err)
	h.Stop()
	if !strings.Contains(log.String(), "run=order-1") || strings.Contains(log.String(), "stolen") {
		t.Error(log.String())
	}
}

// TestNoticesAreBounded has more runs fail at one instant than the log may have lines per second.
func TestNoticesAreBounded(t *testing.T) {
	h, log := logging(t)
	_, err := h.Upload(ctx, "bad", endsWith("again"))
	do(t, err)
	for i := range 80 {
		_, err := h.StartRaw(ctx, "bad", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
		_, err = h.Wait(ctx, fmt.Sprint("r", i))
		do(t, err)
	}
	h.Clock.Advance(time.Second)
	_, err = h.StartRaw(ctx, "bad", nil, host.WithRunID("last"))
	do(t, err)
	_, err = h.Wait(ctx, "last")
	do(t, err)
	h.Stop()
	failed, left := strings.Count(log.String(), "run has failed"), 0
	for line := range strings.Lines(log.String()) {
		if _, rest, ok := strings.Cut(line, "lines="); ok {
			n := 0
			_, err := fmt.Sscan(rest, &n)
			do(t, err)
			left += n
		}
	}
	if failed > 51 || failed < 10 || failed+left != 81 || !strings.Contains(log.String(), "run=last") {
		t.Errorf("%d lines, %d left out: %s", failed, left, log.String())
	}
}
