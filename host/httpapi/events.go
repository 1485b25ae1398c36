package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

const eventsPath = "/v1/events"

type eventsInput struct {
	Workflow string `query:"workflow" doc:"only runs of this workflow"`
}

func (s *API) registerEvents(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "events", Method: http.MethodGet, Path: eventsPath,
		Summary: "Follow all runs: server-sent events, run with each run that has changed, as it stands. The first event is begin: " +
			"what is listed after it misses nothing. The stream has no end; an event error with the code busy says that some are " +
			"missing, since the client reads slower than runs change",
		Responses: map[string]*huma.Response{"200": {Description: "The events",
			Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: huma.TypeString}}}}}},
		func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
			leave, err := s.streams.enter(callerOf(ctx))
			if err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				defer leave()
				f := newFollower(c)
				f.all(c.Context(), s, in.Workflow)
			}}, nil
		})
}

// all sends the runs that change, of this host and of the others of the cluster, until the client disconnects.
func (f *follower) all(ctx context.Context, s *API, workflow string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	was, sources := s.others(ctx), s.sources(ctx, workflow)
	runs, failure := make(chan host.Run), make(chan error, len(sources))
	began := make(chan struct{}, len(sources))
	for _, follow := range sources {
		go func() {
			failure <- follow(ctx, func() { began <- struct{}{} }, func(r host.Run) {
				select {
				case runs <- r:
				case <-ctx.Done():
				}
			})
		}()
	}
	for range sources { // a run that changes meanwhile waits
		select {
		case <-began:
		case err := <-failure:
			f.fail(err)
			return
		}
	}
	f.send("", "begin", struct {
		Time time.Time `json:"time"`
	}{clock.System().Now().UTC()})
	looked := clock.System().Now()
	for f.err == nil {
		silence := clock.System().NewTimer(stillThere)
		select {
		case r := <-runs:
			f.send("", "run", r)
		case err := <-failure:
			f.fail(err)
			f.err = err
		case <-silence.C():
			_, f.err = io.WriteString(f.w, ": nothing new\n\n")
			f.flush()
		}
		silence.Stop()
		if now := clock.System().Now(); f.err == nil && len(sources) > 1 && now.Sub(looked) >= time.Second {
			if looked = now; !s.membersChanged(ctx, was) {
				continue
			}
			f.fail(fmt.Errorf("%w: a host has joined the cluster, whose runs are missing", host.ErrBusy))
		}
	}
}
