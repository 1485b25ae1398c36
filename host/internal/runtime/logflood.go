package runtime

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// While its store cannot be reached, a host has something to say about each partition, again and again. Of each message it logs
// floodLines lines in floodTime, by the machine's clock.
const (
	floodLines = 5
	floodTime  = 10 * time.Second
)

// withoutFloods returns a logger that leaves out further lines of a message, and says in the next one how many those were.
func withoutFloods(log *slog.Logger) *slog.Logger {
	return slog.New(floodHandler{log.Handler(), &floods{of: map[string]*flood{}}})
}

type floodHandler struct {
	slog.Handler
	floods *floods
}

// floods counts lines by their message.
type floods struct {
	mu sync.Mutex
	of map[string]*flood
}

type flood struct {
	until          time.Time // end of the current floodTime
	lines, leftOut int       // since its beginning; since the last line
}

// Handle logs a line, or leaves it out.
func (h floodHandler) Handle(ctx context.Context, line slog.Record) error {
	leftOut, ok := h.floods.admit(line.Message, clock.System().Now())
	if !ok {
		return nil
	}
	if leftOut > 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int("leftOut", leftOut))
	}
	return h.Handler.Handle(ctx, line)
}

// admit reports whether a line may be logged, and how many lines of its message were left out before it.
func (f *floods) admit(message string, now time.Time) (leftOut int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.of[message]
	if x == nil {
		x = &flood{}
		f.of[message] = x
	}
	if !now.Before(x.until) {
		x.until, x.lines = now.Add(floodTime), 0
	}
	if x.lines++; x.lines > floodLines {
		x.leftOut++
		return 0, false
	}
	leftOut, x.leftOut = x.leftOut, 0
	return leftOut, true
}

// WithAttrs returns a handler that adds attributes and leaves out the same lines.
func (h floodHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return floodHandler{h.Handler.WithAttrs(attrs), h.floods}
}

// WithGroup returns a handler that opens a group and leaves out the same lines.
func (h floodHandler) WithGroup(name string) slog.Handler {
	return floodHandler{h.Handler.WithGroup(name), h.floods}
}
