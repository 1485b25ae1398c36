package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Chunk is a piece of a run's output as the API shows it. Data is JSON where it is, else base64.
type Chunk struct {
	Index uint64    `json:"index"`
	Time  time.Time `json:"time"`
	Topic string    `json:"topic"`
	Data  any       `json:"data,omitempty"`
}

// ChunkOf gives a piece of output as the API shows it.
func ChunkOf(c host.Chunk) Chunk {
	return Chunk{Index: c.Index, Time: abi.TimeOf(c.UnixMs), Topic: c.Topic, Data: payload(c.Data)}
}

type outputInput struct {
	RunPath
	Topic  string `query:"topic" doc:"only this topic"`
	From   int64  `query:"from" doc:"the first index; a negative one counts from the end, within the topic if there is one"`
	Limit  int    `query:"limit" default:"1000"`
	Cursor string `query:"cursor" doc:"next of the page before, in place of from"`
	Follows
}

func (s *API) registerOutput(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "output", Method: http.MethodGet, Path: "/v1/runs/{id}/output",
		Summary:   "Read a run's output; with Accept: text/event-stream, follow it until the run ends",
		Responses: streamOf[Chunk](api)},
		func(ctx context.Context, in *outputInput) (*huma.StreamResponse, error) {
			if _, err := space(ctx).Get(ctx, in.ID); err != nil {
				return nil, failed(err)
			}
			if in.Cursor != "" {
				at, err := position(in.Cursor, uint64(in.From))
				if err != nil {
					return nil, err
				}
				in.From = int64(min(at, math.MaxInt64))
			}
			if in.wanted() {
				leave, err := s.streams.enter(callerOf(ctx))
				if err != nil {
					return nil, err
				}
				return &huma.StreamResponse{Body: func(c huma.Context) {
					defer leave()
					s.streamOutput(c, in)
				}}, nil
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				out := stream{c: c, limit: min(max(in.Limit, 1), maxPage)}
				for chunk, err := range space(ctx).Output(ctx, in.ID, in.Topic, in.From) {
					if !out.add(chunk.Index, ChunkOf(chunk), err) {
						return
					}
				}
				out.end()
			}}, nil
		})
}

// streamOutput sends output as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html):
// the id is the index, so that a client that connects again goes on after the last one; the event "end" closes it.
func (s *API) streamOutput(c huma.Context, in *outputInput) {
	c.SetHeader("Content-Type", eventStream)
	c.SetHeader("Cache-Control", "no-store")
	w := c.BodyWriter()
	flush := func() {
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	from := in.From
	var last int64
	if _, err := fmt.Sscan(in.LastID, &last); err == nil {
		from = last + 1
	}
	flush()
	for chunk, err := range space(c.Context()).FollowOutput(c.Context(), in.ID, in.Topic, from) {
		if err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, host.ErrClosed) { // the next server goes on
				b, _ := marshal(failed(err)) // a problem can be encoded
				_, _ = fmt.Fprintf(w, "event: error\ndata: %s\n\n", b)
			}
			return
		}
		b, err := marshal(ChunkOf(chunk))
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\nevent: output\ndata: %s\n\n", chunk.Index, b); err != nil {
			return
		}
		flush()
	}
	_, _ = fmt.Fprint(w, "event: end\ndata: {}\n\n") // the client is gone
	flush()
}

func contentType(b []byte) string {
	if json.Valid(b) {
		return "application/json"
	}
	return "application/octet-stream"
}

// writeProblem writes an error outside of huma.
func writeProblem(w http.ResponseWriter, err error) {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		p = &Problem{Status: http.StatusInternalServerError, Detail: err.Error(), Code: "internal"}
	}
	if p.Title == "" {
		p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = Encode(w, p, "") // the client is gone
}
