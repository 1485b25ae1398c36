//go:build !wasip1

package main

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// tooSlow is the error of an attempt of host/slow, which takes the number of seconds in its input.
const tooSlow = "too slow"

// TestSlowAttempts ends a step's context after 5 s: during an attempt, or between two attempts.
func TestSlowAttempts(t *testing.T) {
	wasm := hosttest.Build(t, ".")
	for _, c := range []struct {
		workflow string
		takes    time.Duration // the attempt
		events   []event
	}{
		{"context-ends-in-an-attempt", 10 * time.Second, nil},
		{"cancel-in-an-attempt", 10 * time.Second, []event{{at: 5 * time.Second, do: cancels}}},
		{"context-ends-between-attempts", 4 * time.Second, nil},
	} {
		t.Run(c.workflow, func(t *testing.T) {
			onHost := slowOnHost(t, wasm, c.workflow, c.takes, c.events)
			var inEnv []string
			synctest.Test(t, func(t *testing.T) { inEnv = inEnvironment(t, c.workflow, c.events) })
			if a, b := strings.Join(onHost, "\n"), strings.Join(inEnv, "\n"); a != b {
				t.Errorf("a host says\n%s\nand the environment\n%s", a, b)
			}
		})
	}
}

// slowOnHost runs a workflow whose first attempt is slow. While a worker holds an attempt, a host does not settle.
func slowOnHost(t *testing.T, wasm []byte, name string, takes time.Duration, events []event) (told []string) {
	t.Helper()
	h := newHost(t, wasm, name)
	list, err := h.Attempts().Take(t.Context(), "slow", host.TakeOptions{Wait: host.MaxTakeWait})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for _, e := range events {
		h.Clock.Set(hosttest.Epoch.Add(e.at))
		told = append(told, e.do(hostCaller{h}))
	}
	if ends := hosttest.Epoch.Add(5 * time.Second); takes > 5*time.Second {
		h.Clock.Set(ends)
		toldOfCancel(t, h, list[0].Lease)
	}
	h.Clock.Set(hosttest.Epoch.Add(takes))
	failed := host.Failure{Message: tooSlow, Type: "*errors.errorString", RetryAfter: -1}
	if err := h.Attempts().Fail(t.Context(), "slow", list[0].Lease, failed); err != nil {
		t.Fatal(err)
	}
	return append(told, finished(t, h)...)
}

// toldOfCancel waits until the worker can learn that the workflow cancelled the step.
func toldOfCancel(t *testing.T, h *hosttest.Host, lease string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		l, err := h.Attempts().Heartbeat(ctx, "slow", lease, 0)
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if l.Cancelled {
			return
		}
		runtime.Gosched()
	}
}
