package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// walker is a handler that makes progress on command, with a heartbeat each time, and resumes where the previous
// attempt stopped.
type walker struct {
	seen  chan string // the details with which each attempt begins
	steps chan int    // the next position; 0 = fail, -1 = done
	done  chan error  // of each heartbeat
}

func newWalker(t *testing.T) (*prims, *walker) {
	w := &walker{make(chan string, 10), make(chan int), make(chan error, 10)}
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "flaky", func(ctx context.Context, text string) (string, error) {
			w.seen <- string(host.StepInfo(ctx).Details)
			for {
				select {
				case n := <-w.steps:
					switch n {
					case 0:
						return "", errors.New("lost the way")
					case -1:
						return text, nil
					}
					w.done <- host.Heartbeat(ctx, n)
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
		})
	}))
	return p, w
}

func (w *walker) walk(t *testing.T, n int) {
	t.Helper()
	w.steps <- n
	if err := <-w.done; err != nil {
		t.Fatal(err)
	}
}

// TestHeartbeatDetails fails an attempt and crashes the host in the next ones: each attempt begins with the details
// of the previous one, except for what it recorded within the interval before the crash.
func TestHeartbeatDetails(t *testing.T) {
	p, w := newWalker(t)
	id := "walk"
	if _, err := p.Start(ctx, "retryable", 0, host.WithRunID(id)); err != nil {
		t.Fatal(err)
	}
	want(t, <-w.seen, "")
	w.walk(t, 1) // recorded at once
	w.walk(t, 2) // in memory
	w.walk(t, 3)
	w.steps <- 0
	p.Settle()
	p.Clock.Advance(time.Second)
	want(t, <-w.seen, "3") // by the failure
	records := func() (list []string) {
		for e, err := range p.Journal(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == store.KindProgress {
				list = append(list, fmt.Sprintf("%d:%s", e.Attempt, e.Data))
			}
		}
		return list
	}
	want(t, strings.Join(records(), " "), "1:1 1:3")
	p.Crash()
	want(t, <-w.seen, "3")
	w.walk(t, 4) // recorded at once, by another host
	w.walk(t, 5) // lost
	p.Crash()
	want(t, <-w.seen, "4")
	w.steps <- -1
	p.Settle()
	if r, err := p.Get(ctx, id); err != nil || r.Status != host.Completed {
		t.Fatalf("%+v %v", r, err)
	}
	if err := host.Heartbeat(ctx, 1); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}
