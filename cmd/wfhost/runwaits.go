package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// maxWaits bounds what is to be said of handlers that are not there. Each is told once, so that more of them are a mistake that
// the first ones show.
const maxWaits = 32

// waits collects what is to be said of the handlers for which the runs of a process wait, because it does not have them.
type waits struct {
	say chan string

	mu   sync.Mutex
	told map[string]bool // by the name of the handler
}

func newWaits() *waits { return &waits{say: make(chan string, maxWaits), told: map[string]bool{}} }

// tell says once which handler a run waits for. It never blocks, as the host's events must not.
func (w *waits) tell(r host.Run) {
	var name string
	if r.Status != host.Waiting {
		return
	}
	if _, err := fmt.Sscanf(r.Reason, "handler %q is not registered here", &name); err != nil {
		return
	}
	name = strings.TrimPrefix(name, abi.HandlerPrefix) // which only workflows write
	if !w.first(name) {
		return
	}
	select {
	case w.say <- fmt.Sprintf("run %s waits for the handler %[2]s, which is not there; to add it: --handler %[2]s=URL "+
		"--handler-secret SOURCE, or, without --skip-sleep, --worker-handler %[2]s; see wfhost run --help", r.ID, oneLine(name)):
	default:
	}
}

// first reports whether nothing has been said of a handler yet.
func (w *waits) first(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[name] {
		return false
	}
	w.told[name] = true
	return true
}

// print shows what is to be said until the context is done.
func (w *waits) print(ctx context.Context, g *globals) {
	for {
		select {
		case text := <-w.say:
			_, _ = fmt.Fprintf(g.io.err, "wfhost: %s\n", text)
		case <-ctx.Done():
			return
		}
	}
}
