package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Chunk is a piece of a run's output as the API shows it. Data is JSON if it is valid JSON, else text in base64, as
// Base64 says.
type Chunk struct {
	Index uint64          `json:"index"`
	Time  time.Time       `json:"time"`
	Topic string          `json:"topic"`
	Data  json.RawMessage `json:"data,omitempty"`

	Base64 []string `json:"base64,omitempty" doc:"[\"data\"] if data is no JSON, and stands there in base64"`
}

// ChunkOf returns a piece of output as the API shows it.
func ChunkOf(c host.Chunk) Chunk {
	out := Chunk{Index: c.Index, Time: abi.TimeOf(c.UnixMs), Topic: c.Topic}
	var coded bool
	out.Data, coded = payload(c.Data)
	if coded {
		out.Base64 = []string{"data"}
	}
	return out
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
			if _, err := namespaceFrom(ctx).Get(ctx, in.ID); err != nil {
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
				return s.followOutput(ctx, in)
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				out := stream{c: c, limit: min(max(in.Limit, 1), maxPage)}
				for chunk, err := range namespaceFrom(ctx).Output(ctx, in.ID, in.Topic, in.From) {
					if !out.add(chunk.Index, ChunkOf(chunk), err) {
						return
					}
				}
				out.end()
			}}, nil
		})
}

func contentType(b []byte) string {
	if abi.IsJSON(b) {
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
