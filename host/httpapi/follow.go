package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) are the answer to a request with
// Accept: text/event-stream, until the run has ended. The id of an event says where to continue, so that a client that
// reconnects misses nothing. The event "end" closes the stream, and "error" says why it was closed early. "stuck" has
// the run, which does not continue by itself: no event follows until someone repairs it.

const eventStream = "text/event-stream"

// stillThere is the interval of keep-alive comments in a silent stream: proxies cut connections after a minute of
// silence.
const stillThere = 15 * time.Second

// Follows is the common part of the inputs of endpoints that can be followed.
type Follows struct {
	Accept string `header:"Accept" doc:"text/event-stream follows it until the run has ended"`
	LastID string `header:"Last-Event-ID" doc:"of an event: the stream goes on behind it"`
}

func (f *Follows) wanted() bool { return strings.Contains(f.Accept, eventStream) }

// follower writes the events of one stream.
type follower struct {
	of    context.Context
	w     io.Writer
	err   error // of the connection
	stuck bool  // the event "stuck" was sent
}

// newFollower returns the writer of a stream. The stream itself reports that its caller is not admitted any more. The
// header X-Accel-Buffering tells proxies such as nginx not to buffer the answer.
func newFollower(c huma.Context) *follower {
	c.SetHeader("Content-Type", eventStream)
	c.SetHeader("Cache-Control", "no-store")
	c.SetHeader("X-Accel-Buffering", "no")
	f := &follower{of: c.Context(), w: c.BodyWriter()}
	if a, ok := f.w.(*answered); ok {
		a.of = nil
	}
	return f
}

// send writes an event, unless the caller is no longer admitted. It reports whether the stream stays open.
func (f *follower) send(id, event string, v any) bool {
	if err := endOf(f.of); err != nil {
		f.fail(err)
		return false
	}
	b, err := marshal(v)
	if err != nil {
		f.fail(err)
		return false
	}
	if id != "" {
		_, f.err = fmt.Fprintf(f.w, "id: %s\n", id)
	}
	if f.err == nil {
		_, f.err = fmt.Fprintf(f.w, "event: %s\ndata: %s\n\n", event, b)
	}
	f.flush()
	return f.err == nil
}

func (f *follower) flush() {
	if w, ok := f.w.(http.Flusher); ok {
		w.Flush()
	}
}

// fail sends why the stream ends, unless the client has disconnected or the host is closing: then the client
// reconnects to the next server.
func (f *follower) fail(err error) {
	if end := endOf(f.of); end != nil {
		err, f.of = end, context.Background() // this event is still sent
	}
	if f.err == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, host.ErrClosed) {
		f.send("", "error", failed(err))
		f.err = err
	}
}

// follow answers with the events that more sends. It calls more whenever new data of the run is durable, until the run
// had ended before the call. more sends the events that were not sent yet.
func (s *API) follow(ctx context.Context, run string, more func(context.Context, *follower) error) (*huma.StreamResponse, error) {
	if _, err := namespaceFrom(ctx).Get(ctx, run); err != nil {
		return nil, failed(err)
	}
	leave, err := s.streams.enter(callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer leave()
		f := newFollower(c)
		f.flush()
		f.watch(c.Context(), run, more)
	}}, nil
}

func (f *follower) watch(ctx context.Context, run string, more func(context.Context, *follower) error) {
	changed, stop := namespaceFrom(ctx).Watch(run)
	defer stop()
	for f.err == nil {
		r, err := namespaceFrom(ctx).Get(ctx, run)
		if err == nil {
			err = more(ctx, f)
		}
		switch {
		case err != nil:
			f.fail(err)
			return
		case r.Status == host.Stuck && !f.stuck:
			f.send("", "stuck", r)
		case r.Status.Terminal():
			f.send("", "end", struct{}{})
			return
		}
		f.stuck = r.Status == host.Stuck
		silence := clock.System().NewTimer(stillThere)
		select {
		case <-changed:
		case <-silence.C():
			_, f.err = io.WriteString(f.w, ": nothing new\n\n")
			f.flush()
		case <-ctx.Done():
			f.fail(ctx.Err())
			f.err = ctx.Err()
		}
		silence.Stop()
	}
}

// followRun sends the run whenever it has changed.
func (s *API) followRun(ctx context.Context, id string) (*huma.StreamResponse, error) {
	var last time.Time
	var entries uint64
	return s.follow(ctx, id, func(ctx context.Context, f *follower) error {
		r, err := namespaceFrom(ctx).Get(ctx, id)
		if err == nil && (r.Updated != last || r.Entries != entries) {
			f.send(strconv.FormatUint(r.Entries, 10), "run", r)
			last, entries = r.Updated, r.Entries
		}
		return err
	})
}

// followJournal sends the entries of a journal, from iteration to iteration. The id of an event is the iteration and
// the seq.
func (s *API) followJournal(ctx context.Context, in *journalInput) (*huma.StreamResponse, error) {
	iteration, from := in.Iteration, in.From
	if in.LastID != "" {
		var at uint32
		if _, err := fmt.Sscanf(in.LastID, "%d.%d", &at, &from); err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "Last-Event-ID must be that of an event, as 0.17, got %.80q", in.LastID)
		}
		iteration, from = int64(at), from+1
	}
	return s.follow(ctx, in.ID, func(ctx context.Context, f *follower) error {
		r, err := namespaceFrom(ctx).Get(ctx, in.ID)
		if iteration < 0 {
			iteration = int64(r.Iteration)
		}
		for ; err == nil && iteration <= int64(r.Iteration); iteration, from = iteration+1, 0 {
			var e host.Entry
			for e, err = range namespaceFrom(ctx).JournalOf(ctx, in.ID, uint32(iteration), store.Seq(from)) {
				if err != nil || !f.send(fmt.Sprintf("%d.%d", iteration, e.Seq), "entry", EntryOf(e)) {
					return err
				}
				from = uint64(e.Seq) + 1
			}
			if iteration == int64(r.Iteration) {
				break
			}
		}
		return err
	})
}

// followLogs sends the lines of a log. The id of an event is the index.
func (s *API) followLogs(ctx context.Context, id, lastID string, from uint64) (*huma.StreamResponse, error) {
	if lastID != "" {
		last, err := strconv.ParseUint(lastID, 10, 64)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "Last-Event-ID must be that of an event, as 17, got %.80q", lastID)
		}
		from = last + 1
	}
	return s.follow(ctx, id, func(ctx context.Context, f *follower) error {
		for {
			lines, err := namespaceFrom(ctx).Logs(ctx, id, from, logPortion)
			for _, l := range lines {
				if !f.send(strconv.FormatUint(l.Index, 10), "log", LogOf(l)) {
					return nil
				}
				from = l.Index + 1
			}
			if err != nil || len(lines) < logPortion {
				return err
			}
		}
	})
}

// followOutput sends chunks of output. The id of an event is the index.
func (s *API) followOutput(ctx context.Context, in *outputInput) (*huma.StreamResponse, error) {
	from := in.From
	if in.LastID != "" {
		last, err := strconv.ParseUint(in.LastID, 10, 63)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "Last-Event-ID must be that of an event, as 17, got %.80q", in.LastID)
		}
		from = int64(last) + 1
	}
	return s.follow(ctx, in.ID, func(ctx context.Context, f *follower) error {
		for c, err := range namespaceFrom(ctx).Output(ctx, in.ID, in.Topic, from) {
			if err != nil || !f.send(strconv.FormatUint(c.Index, 10), "output", ChunkOf(c)) {
				return err
			}
			from = int64(c.Index) + 1
		}
		from = max(from, 0) // there was no output yet to count back from
		return nil
	})
}
