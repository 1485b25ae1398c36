package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/store"
)

const (
	// noticesAhead is how many lines may be queued for the log. Runs never wait for the queue.
	noticesAhead = 256
	// noticesPerSecond is more than people read, and less than the output of a workflow that fails in a loop.
	noticesPerSecond = 50
	// maxCauseBytes bounds a message in a line; the run has the whole message.
	maxCauseBytes = 1000
)

// notices logs failed runs and steps, in a goroutine of its own. Above the rate, it drops lines and logs how many it
// dropped.
type notices struct {
	log    *slog.Logger
	causes bool // messages may be logged
	lines  chan notice
	left   atomic.Int64 // dropped lines
	ended  chan struct{}

	mu              sync.Mutex // guards the fields below; held only briefly
	second, written int64      // the current second and its number of lines
	closed          bool
}

// notice is a log line about a run. failure is the JSON of a failure, or nil.
type notice struct {
	text    string
	about   []any
	failure []byte
}

// newNotices returns nil if the log drops warnings. If causes is false, no line quotes the error of a workflow.
func newNotices(log *slog.Logger, causes bool) *notices {
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return nil
	}
	n := &notices{log: log, causes: causes, lines: make(chan notice, noticesAhead), ended: make(chan struct{})}
	go n.write()
	return n
}

// Close writes the queued lines and ends. Later warnings are dropped.
func (n *notices) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.lines)
	}
	n.mu.Unlock()
	<-n.ended
}

// warn queues a line, or drops it. It does not wait for the log.
func (n *notices) warn(now time.Time, x notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	if s := now.Unix(); s != n.second {
		n.second, n.written = s, 0
	}
	n.written++
	if n.written <= noticesPerSecond {
		select {
		case n.lines <- x:
			return
		default:
		}
	}
	n.left.Add(1)
}

func (n *notices) write() {
	defer close(n.ended)
	for x := range n.lines {
		if left := n.left.Swap(0); left > 0 {
			n.log.Warn("lines about runs were left out, as there were too many", "lines", left)
		}
		n.log.Warn(x.text, append(x.about, n.failure(x.failure)...)...)
	}
	if left := n.left.Load(); left > 0 {
		n.log.Warn("lines about runs were left out, as there were too many", "lines", left)
	}
}

// failure returns the log attributes of a failure.
func (n *notices) failure(text []byte) (args []any) {
	if text == nil {
		return nil
	}
	var f struct { // like *abi.Error, but a workflow may have written codes of its own
		Code, Message, Name, Kind string
		Attempts                  int
	}
	if err := json.Unmarshal(text, &f); err != nil || f.Message == "" {
		f.Message = string(text)
	}
	for _, x := range []struct{ key, text string }{{"code", f.Code}, {"step", f.Name}, {"kind", f.Kind}} {
		if x.text != "" {
			args = append(args, x.key, x.text)
		}
	}
	if f.Attempts > 0 {
		args = append(args, "attempts", f.Attempts)
	}
	if n.causes {
		cause := f.Message
		if len(cause) > maxCauseBytes {
			cause = cause[:maxCauseBytes] + "…"
		}
		args = append(args, "cause", strings.ToValidUTF8(cause, "\uFFFD"))
	}
	return args
}

// tell warns of failures in a commit of a run.
func (h *Host) tell(c *store.RunCommit) {
	if h.notices == nil {
		return
	}
	for i := range c.Append {
		switch e := &c.Append[i]; e.Kind {
		case store.KindFailed:
			h.notices.warn(h.cfg.Clock.Now(), notice{"run has failed", h.about(&c.State), e.Data})
		case store.KindStepFailure:
			h.notices.warn(h.cfg.Clock.Now(), notice{"step has failed for good", h.about(&c.State), e.Data})
		}
	}
}

// about returns the log attributes that name a run.
func (h *Host) about(st *store.RunState) []any {
	args := []any{"run", st.Run.ID, "workflow", st.Workflow, "version", st.Version}
	if ns := h.nameOf(st.Run.Namespace); ns != "" {
		args = append(args, "namespace", ns)
	}
	return args
}
