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

// FollowPatience is how long what follows a run waits at least for a server that is away: longer than one takes to
// start with a large store.
const FollowPatience = 10 * time.Minute

// Entry is an entry of a journal. Payloads are JSON where they are, else a JSON string of base64, as Base64 says.
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
	Refused  string          `json:"refused,omitempty"` // the name of a code
	Code     int32           `json:"code,omitempty"`
	Skipped  bool            `json:"skipped,omitempty"`
	Consumed uint64          `json:"consumed,omitempty"`
	Base64   []string        `json:"base64,omitempty"` // which of input, options and data are no JSON
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

// Chunk is one chunk of a run's output.
type Chunk struct {
	Index uint64          `json:"index"`
	Time  time.Time       `json:"time"`
	Topic string          `json:"topic"`
	Data  json.RawMessage `json:"data,omitempty"` // JSON where it is, else a string of base64

	Base64 []string `json:"base64,omitempty"` // ["data"] if Data is no JSON
}

// Bytes returns the data as the workflow has emitted it.
func (c *Chunk) Bytes() ([]byte, error) {
	if !slices.Contains(c.Base64, "data") {
		return c.Data, nil
	}
	var b []byte
	err := json.Unmarshal(c.Data, &b)
	return b, err
}

// Newest is the iteration that a run is in.
const Newest = -1

// Journal returns the entries of an iteration of a run, from a seq on; Newest is that which it is in.
func (c *Client) Journal(ctx context.Context, id string, iteration int64, from uint64) iter.Seq2[Entry, error] {
	return listed[Entry](ctx, c, runPath(id, "/journal"), url.Values{"iteration": {strconv.FormatInt(iteration, 10)}}, int64(from))
}

// Logs returns the lines of a run's log, from an index on.
func (c *Client) Logs(ctx context.Context, id string, from uint64) iter.Seq2[Log, error] {
	return listed[Log](ctx, c, runPath(id, "/logs"), url.Values{}, int64(from))
}

// Output returns the output of a run on a topic, on all of them for "", from an index on; a negative one counts from
// the end.
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

// listed returns the items of a list that begins at an index.
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

// FollowRun yields a run as it stands, and again whenever it has changed, until it has ended or ctx is done. It
// reports changes in quick succession as one. A run that is stuck may still continue, when somebody mends it.
func (c *Client) FollowRun(ctx context.Context, id string) iter.Seq2[Run, error] {
	return follow[Run](ctx, c, runPath(id, ""), nil, "run")
}

// FollowRuns yields the runs of the namespace, or of a workflow if it is not empty, whenever they have changed, as
// they are then, until ctx is done.
//
// began, unless it is nil, is called when the server begins to report changes, so that a list that is read after it
// misses nothing; and again after the server was away, when changes may have gone unreported. FollowRuns ends with
// ErrBusy if runs change faster than the caller takes them, so that some are missing.
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
			case err == nil && r.ID == "": // it is the beginning
				if began != nil {
					began()
				}
			case !yield(r, err):
				return
			}
		}
	}
}

// FollowJournal yields the entries of a journal from a seq of an iteration on, as they become durable, from iteration
// to iteration, until the run has ended or is stuck. Like the other methods that follow, it continues behind the last
// entry when the server comes back.
func (c *Client) FollowJournal(ctx context.Context, id string, iteration int64, from uint64) iter.Seq2[Entry, error] {
	return follow[Entry](ctx, c, runPath(id, "/journal"), url.Values{"iteration": {strconv.FormatInt(iteration, 10)},
		"from": {strconv.FormatUint(from, 10)}}, "entry")
}

// FollowLogs returns the lines of a run's log from an index on, until the run has ended or is stuck.
func (c *Client) FollowLogs(ctx context.Context, id string, from uint64) iter.Seq2[Log, error] {
	return follow[Log](ctx, c, runPath(id, "/logs"), url.Values{"from": {strconv.FormatUint(from, 10)}}, "log")
}

// FollowOutput is Output that continues until the run has ended or is stuck.
func (c *Client) FollowOutput(ctx context.Context, id, topic string, from int64) iter.Seq2[Chunk, error] {
	v := ofTopic(topic)
	v.Set("from", strconv.FormatInt(from, 10))
	return follow[Chunk](ctx, c, runPath(id, "/output"), v, "output")
}

// Errors that end a loop over events.
var (
	errEnd     = errors.New("end")
	errStopped = errors.New("stopped")
)

// follow returns the events of some names until the server says that there are no more, and connects again when they
// break off.
func follow[T any](ctx context.Context, c *Client, path string, query url.Values, names ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := Request{Method: http.MethodGet, Path: path, Query: query, Header: http.Header{"Accept": {"text/event-stream"}}}
		patience := max(c.patience, FollowPatience)
		fail := func(err error) {
			var none T
			yield(none, err)
		}
		waited, next := time.Duration(0), firstPause // since something came
		for {
			res, err := c.retry(ctx, &r, patience)
			if err != nil {
				fail(err)
				return
			}
			if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
				_ = res.Body.Close() // nobody reads it
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
			_ = res.Body.Close() // it is over
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
			_ = c.wait(ctx, next) // the request says so, too
			waited, next = waited+next, min(2*next, mostPause)
		}
	}
}

// given hands an event over.
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
	case "stuck": // a run is given as it is; there will be no entries, lines or chunks for now
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

// events hands the events of a stream over, until that ends, which is a lostError.
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
