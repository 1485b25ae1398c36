package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FollowPatience is the minimum time that the Follow methods retry: longer than a server with a large store takes to start.
const FollowPatience = 10 * time.Minute

// Entry is an entry of a journal. Payloads are JSON if they can be, otherwise base64 strings that are listed in Base64.
type Entry struct {
	Seq      uint64          `json:"seq"`
	Kind     string          `json:"kind"`
	Time     time.Time       `json:"time"`
	Handle   int64           `json:"handle,omitempty"`
	Name     string          `json:"name,omitempty"`
	Target   string          `json:"target,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Options  json.RawMessage `json:"options,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Due      *time.Time      `json:"due,omitempty"`
	Attempt  uint32          `json:"attempt,omitempty"`
	Refused  string          `json:"refused,omitempty"` // name of an error code
	Code     int32           `json:"code,omitempty"`
	Skipped  bool            `json:"skipped,omitempty"`
	Consumed uint64          `json:"consumed,omitempty"`
	Base64   []string        `json:"base64,omitempty"` // which of input, options and data are base64
}

// Log is one line of a run's log.
type Log struct {
	Index   uint64    `json:"index"`
	Time    time.Time `json:"time"`
	Level   string    `json:"level"` // debug, info, warn or error
	Step    string    `json:"step,omitempty"`
	Attempt uint32    `json:"attempt,omitempty"`
	Text    string    `json:"text"`
}

// Chunk is a chunk of a run's output.
type Chunk struct {
	Index uint64          `json:"index"`
	Time  time.Time       `json:"time"`
	Topic string          `json:"topic"`
	Data  json.RawMessage `json:"data,omitempty"` // JSON if it can be, otherwise a base64 string

	Base64 []string `json:"base64,omitempty"` // ["data"] if Data is base64
}

// Bytes returns the data as the workflow emitted it.
func (c *Chunk) Bytes() ([]byte, error) {
	if !slices.Contains(c.Base64, "data") {
		return c.Data, nil
	}
	var b []byte
	err := json.Unmarshal(c.Data, &b)
	return b, err
}

// Newest selects the current iteration of a run.
const Newest = -1

// Journal returns the entries of an iteration of a run, starting at seq from. Newest selects the current iteration.
func (c *Client) Journal(ctx context.Context, id string, iteration int64, from uint64) iter.Seq2[Entry, error] {
	return listed[Entry](ctx, c, runPath(id, "/journal"), url.Values{"iteration": {strconv.FormatInt(iteration, 10)}}, int64(from))
}

// Logs returns the lines of a run's log, starting at index from.
func (c *Client) Logs(ctx context.Context, id string, from uint64) iter.Seq2[Log, error] {
	return listed[Log](ctx, c, runPath(id, "/logs"), url.Values{}, int64(from))
}

// Output returns the output of a run on a topic, or on all topics for "", starting at index from. A negative index counts
// from the end.
func (c *Client) Output(ctx context.Context, id, topic string, from int64) iter.Seq2[Chunk, error] {
	return listed[Chunk](ctx, c, runPath(id, "/output"), ofTopic(topic), from)
}

func ofTopic(topic string) url.Values {
	v := url.Values{}
	if topic != "" {
		v.Set("topic", topic)
	}
	return v
}

// listed returns the items of a list, starting at an index.
func listed[T any](ctx context.Context, c *Client, path string, v url.Values, from int64) iter.Seq2[T, error] {
	return pages(func(cursor string) (Page[T], error) {
		if v.Del("from"); cursor == "" {
			v.Set("from", strconv.FormatInt(from, 10))
		} else {
			v.Set("cursor", cursor)
		}
		return get[Page[T]](ctx, c, path, v)
	})
}

// FollowRun yields a run, and again after each change, until the run has ended or ctx is done. It may merge changes in quick
// succession. It continues while a run is stuck, since the run may be repaired.
func (c *Client) FollowRun(ctx context.Context, id string) iter.Seq2[Run, error] {
	return follow[Run](ctx, c, runPath(id, ""), nil, "run")
}

// FollowRuns yields each run of the namespace, or of a workflow if it is not empty, in its new state after a change, until
// ctx is done.
//
// began, unless nil, is called when the server begins to report changes; a list that is read afterwards misses none. It is
// called again after the server was away, when changes may have been missed. FollowRuns ends with ErrBusy if the caller
// is too slow, so that changes were dropped.
func (c *Client) FollowRuns(ctx context.Context, workflow string, began func()) iter.Seq2[Run, error] {
	v := url.Values{}
	if workflow != "" {
		v.Set("workflow", workflow)
	}
	return func(yield func(Run, error) bool) {
		for e, err := range follow[json.RawMessage](ctx, c, "/v1/events", v, "begin", "run") {
			var r Run
			if err == nil {
				err = json.Unmarshal(e, &r)
			}
			switch {
			case err == nil && r.ID == "": // the begin event
				if began != nil {
					began()
				}
			case !yield(r, err):
				return
			}
		}
	}
}

// FollowJournal yields the entries of a journal from a seq of an iteration on, as they become durable. It continues through
// later iterations until the run has ended or is stuck. Like all Follow methods, it resumes behind the last entry when the
// server comes back.
func (c *Client) FollowJournal(ctx context.Context, id string, iteration int64, from uint64) iter.Seq2[Entry, error] {
	return follow[Entry](ctx, c, runPath(id, "/journal"), url.Values{"iteration": {strconv.FormatInt(iteration, 10)},
		"from": {strconv.FormatUint(from, 10)}}, "entry")
}

// FollowLogs yields the lines of a run's log, starting at index from, until the run has ended or is stuck.
func (c *Client) FollowLogs(ctx context.Context, id string, from uint64) iter.Seq2[Log, error] {
	return follow[Log](ctx, c, runPath(id, "/logs"), url.Values{"from": {strconv.FormatUint(from, 10)}}, "log")
}

// FollowOutput is like Output and continues until the run has ended or is stuck.
func (c *Client) FollowOutput(ctx context.Context, id, topic string, from int64) iter.Seq2[Chunk, error] {
	v := ofTopic(topic)
	v.Set("from", strconv.FormatInt(from, 10))
	return follow[Chunk](ctx, c, runPath(id, "/output"), v, "output")
}

// Errors that end the loop over events.
var (
	errEnd     = errors.New("end")
	errStopped = errors.New("stopped")
)

// follow yields the events with the given names until the server reports the end. It reconnects when the stream breaks off.
func follow[T any](ctx context.Context, c *Client, path string, query url.Values, names ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := Request{Method: http.MethodGet, Path: path, Query: query, Header: http.Header{"Accept": {"text/event-stream"}}}
		patience := max(c.patience, FollowPatience)
		fail := func(err error) {
			var none T
			yield(none, err)
		}
		waited, next := time.Duration(0), firstPause // since the last event
		for {
			res, err := c.retry(ctx, &r, patience)
			if err != nil {
				fail(err)
				return
			}
			if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
				_ = res.Body.Close() // the body is not needed
				fail(fmt.Errorf("%s does not follow %s: it answers with %q", c.base, path, kind))
				return
			}
			err = c.events(res.Body, func(e *event) error {
				waited, next = 0, firstPause
				if e.id != "" {
					r.Header.Set("Last-Event-ID", e.id)
				}
				return given(e, names, yield)
			})
			_ = res.Body.Close() // the stream is over
			switch _, lost := errors.AsType[*lostError](err); {
			case errors.Is(err, errEnd), errors.Is(err, errStopped):
				return
			case ctx.Err() != nil:
				fail(context.Cause(ctx))
				return
			case !lost || waited+next > patience:
				fail(err)
				return
			}
			_ = c.wait(ctx, next) // the next request reports the end of ctx
			waited, next = waited+next, min(2*next, mostPause)
		}
	}
}

// given passes an event to the caller.
func given[T any](e *event, names []string, yield func(T, error) bool) error {
	if slices.Contains(names, e.name) {
		var v T
		if err := json.Unmarshal(e.data, &v); err != nil {
			return fmt.Errorf("an event %q cannot be read: %w", e.name, err)
		}
		if !yield(v, nil) {
			return errStopped
		}
		return nil
	}
	switch e.name {
	case "end":
		return errEnd
	case "stuck": // FollowRun continues; there are no more entries, lines or chunks for now
		if !slices.Contains(names, "run") {
			return errEnd
		}
	case "error":
		return errorOf(&http.Response{Status: "an error", Header: http.Header{}}, e.data)
	}
	return nil
}

// event is a server-sent event (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type event struct {
	id, name string
	data     []byte
}

// events passes the events of a stream to take. The end of the stream is a lostError.
func (c *Client) events(r io.Reader, take func(*event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAnswerBytes)
	var e event
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
		if lines.Text() == "" && e.data != nil {
			if err := take(&e); err != nil {
				return err
			}
			e = event{}
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &lostError{err, c.base}
}
