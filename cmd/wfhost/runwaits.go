package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// maxWaits bounds the messages about missing handlers. Each handler is reported once, and a mistake that affects many
// handlers shows in the first messages.
const maxWaits = 32

// waits collects messages about handlers that runs wait for because this process lacks them.
type waits struct {
	say chan string

	mu   sync.Mutex
	told map[string]bool // by name of the handler
}

func newWaits() *waits { return &waits{say: make(chan string, maxWaits), told: map[string]bool{}} }

// tell reports once per handler that a run waits for it. It never blocks, since it is called from host events.
func (w *waits) tell(r host.Run) {
	var name string
	if r.Status != host.Waiting {
		return
	}
	if _, err := fmt.Sscanf(r.Reason, "handler %q is not registered here", &name); err != nil {
		return
	}
	name = strings.TrimPrefix(name, abi.HandlerPrefix) // only workflows write the prefix
	if !w.first(name) {
		return
	}
	select {
	case w.say <- fmt.Sprintf("run %s waits for the handler %[2]s, which is not there; to add it: --handler %[2]s=URL "+
		"--handler-secret SOURCE, or, without --skip-sleep, --worker-handler %[2]s; see wfhost run --help", r.ID, oneLine(name)):
	default:
	}
}

// first reports whether a handler has not been reported before.
func (w *waits) first(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[name] {
		return false
	}
	w.told[name] = true
	return true
}

// print shows messages until the context is done.
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
