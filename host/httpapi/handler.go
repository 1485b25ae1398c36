package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Attempt is an attempt of a step as a worker gets it.
type Attempt struct {
	Lease          string    `json:"lease" doc:"names the attempt in the paths below"`
	Until          time.Time `json:"until" doc:"the end of the lease, unless a heartbeat comes"`
	Deadline       time.Time `json:"deadline" doc:"the end of the attempt, by the step's timeout"`
	TimeoutMs      int64     `json:"timeout_ms" doc:"from when the attempt was taken to its deadline, for clocks that differ"`
	Handler        string    `json:"handler"`
	Namespace      string    `json:"namespace" doc:"empty: the default one"`
	Run            string    `json:"run"`
	Workflow       string    `json:"workflow"`
	Version        uint32    `json:"version"`
	Step           string    `json:"step"`
	Attempt        int       `json:"attempt" doc:"from 1"`
	Attempts       int       `json:"attempts" doc:"at most; 0: no limit"`
	Delivery       int       `json:"delivery" doc:"how often this attempt was taken; more than 1 after a worker was lost"`
	AtMostOnce     bool      `json:"at_most_once" doc:"begin it with a heartbeat, and only if that is answered with 200"`
	IdempotencyKey string    `json:"idempotency_key" doc:"the same for all attempts of the step"`
	TraceParent    string    `json:"traceparent"`
	// Input is present if it is JSON; otherwise InputBase64 is, unless the input is empty.
	Input       json.RawMessage `json:"input,omitempty"`
	InputBase64 string          `json:"input_base64,omitempty"`
	Details     json.RawMessage `json:"details,omitempty" doc:"what a heartbeat has recorded last, in this attempt or one before"`
}

func attemptOf(a *host.Attempt) Attempt {
	out := Attempt{Lease: a.Lease, Until: a.Until, Deadline: a.Deadline, TimeoutMs: a.Timeout.Milliseconds(),
		Handler: a.Handler, Namespace: a.Namespace, Run: a.RunID,
		Workflow: a.Workflow, Version: a.Version, Step: a.Name, Attempt: a.Attempt, Attempts: a.Attempts, Delivery: a.Delivery,
		AtMostOnce: a.AtMostOnce, IdempotencyKey: a.IdempotencyKey, TraceParent: a.TraceParent(), Details: a.Details}
	if abi.IsJSON(a.Input) {
		out.Input = a.Input
	} else {
		out.InputBase64 = base64.StdEncoding.EncodeToString(a.Input)
	}
	return out
}

// Failure is the body with which a worker reports that an attempt has failed.
type Failure struct {
	Message    string          `json:"message"`
	Type       string          `json:"type,omitempty" doc:"of the error, for the workflow"`
	Fatal      bool            `json:"fatal,omitempty" doc:"not to be tried again"`
	RetryAfter string          `json:"retry_after,omitempty" doc:"duration text, in place of the step's back-off"`
	Details    json.RawMessage `json:"details,omitempty"`
}

// AttemptPath identifies an attempt that a worker has taken.
type AttemptPath struct {
	Handler string `path:"handler"`
	Lease   string `path:"lease"`
}

type takeInput struct {
	Handler string `path:"handler"`
	Max     int    `query:"max" default:"1" doc:"so many attempts at most, up to 100"`
	Wait    string `query:"wait" default:"0s" doc:"how long to wait for the first one, duration text up to 1m"`
	Lease   string `query:"lease" default:"30s" doc:"duration text from 1s to 1h"`
	Worker  string `query:"worker" doc:"name of the worker, for people"`
}

func (s *API) registerHandlers(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "handlers", Method: http.MethodGet, Path: "/v1/handlers",
		Summary: "List the handlers for workers, and what waits for them in this namespace"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.RemoteHandler], error) {
			list, err := s.handlers(ctx)
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "take-attempts", Method: http.MethodGet, Path: "/v1/handlers/{handler}/attempts",
		Summary: "Take attempts of a handler, each with a lease; an empty list if there is none for as long as wait"},
		func(ctx context.Context, in *takeInput) (*listOutput[Attempt], error) {
			list, err := s.take(ctx, in)
			return listed(list, err)
		})
	const path = "/v1/handlers/{handler}/attempts/{lease}"
	huma.Register(api, huma.Operation{OperationID: "heartbeat", Method: http.MethodPost, Path: path + "/heartbeat",
		MaxBodyBytes: maxBodyBytes, SkipValidateBody: true,
		Summary: "Say that an attempt was begun and goes on: its lease begins anew; a body is JSON of at most 4 KiB, which the next " +
			"attempt gets as details"},
		func(ctx context.Context, in *struct {
			AttemptPath
			For     string `query:"lease" default:"30s" doc:"duration text from 1s to 1h"`
			RawBody []byte `contentType:"application/json"`
		}) (*struct{ Body host.Lease }, error) {
			d, err := leaseOf(in.For)
			if err != nil {
				return nil, err
			}
			var l host.Lease
			if len(in.RawBody) == 0 {
				l, err = namespaceFrom(ctx).Attempts().Heartbeat(ctx, in.Handler, in.Lease, d)
			} else {
				l, err = namespaceFrom(ctx).Attempts().HeartbeatDetails(ctx, in.Handler, in.Lease, d, in.RawBody)
			}
			return &struct{ Body host.Lease }{l}, failed(err)
		})
	optionalBody(api, path+"/heartbeat")
	huma.Register(api, huma.Operation{OperationID: "complete", Method: http.MethodPost, Path: path + "/complete",
		MaxBodyBytes: maxBodyBytes, SkipValidateBody: true, DefaultStatus: http.StatusNoContent,
		Summary: "Hand in the result of an attempt, which is the body; 204 means that it is durable"},
		func(ctx context.Context, in *struct {
			AttemptPath
			RawBody []byte
		}) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Attempts().Complete(ctx, in.Handler, in.Lease, in.RawBody))
		})
	optionalBody(api, path+"/complete")
	huma.Register(api, huma.Operation{OperationID: "fail", Method: http.MethodPost, Path: path + "/fail",
		DefaultStatus: http.StatusNoContent, Summary: "Hand in that an attempt has failed; 204 means that it is durable"},
		func(ctx context.Context, in *struct {
			AttemptPath
			Body Failure
		}) (*struct{}, error) {
			f := host.Failure{Message: in.Body.Message, Type: in.Body.Type, Fatal: in.Body.Fatal, RetryAfter: -1, Details: in.Body.Details}
			if in.Body.RetryAfter != "" {
				var err error
				f.RetryAfter, err = durationOf("retry_after", in.Body.RetryAfter)
				if err != nil {
					return nil, err
				}
			}
			return nil, failed(namespaceFrom(ctx).Attempts().Fail(ctx, in.Handler, in.Lease, f))
		})
	huma.Register(api, huma.Operation{OperationID: "release", Method: http.MethodPost, Path: path + "/release",
		DefaultStatus: http.StatusNoContent, Summary: "Give an attempt back that was not begun, for another worker"},
		func(ctx context.Context, in *struct{ AttemptPath }) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Attempts().Release(ctx, in.Handler, in.Lease))
		})
}

// leaseOf reads the duration of a lease. The host takes 0 for the default.
func leaseOf(text string) (time.Duration, error) {
	d, err := durationOf("lease", text)
	if err == nil && d < host.MinLease {
		err = problem(http.StatusBadRequest, "invalid", "a lease lasts from %v to %v, got %v", host.MinLease, host.MaxLease, d)
	}
	return d, err
}

// take takes attempts for a worker. If the worker has disconnected meanwhile, it releases them.
func (s *API) take(ctx context.Context, in *takeInput) ([]Attempt, error) {
	o := host.TakeOptions{Worker: in.Worker, Max: in.Max}
	var err error
	o.Wait, err = durationOf("wait", in.Wait)
	if err != nil {
		return nil, err
	}
	o.Lease, err = leaseOf(in.Lease)
	if err != nil {
		return nil, err
	}
	if in.Max < 1 { // the host would read it as the default
		return nil, problem(http.StatusBadRequest, "invalid", "max: a worker takes from 1 to %d attempts at once, got %d",
			host.MaxBatch, in.Max)
	}
	leave, err := s.polls.enter(callerOf(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	take := s.takeOwn
	if len(s.others(ctx)) > 0 {
		take = s.takeAnywhere
	}
	list, err := take(ctx, in.Handler, o)
	if err != nil {
		return nil, failed(err)
	}
	if ctx.Err() != nil {
		s.release(ctx, in.Handler, list)
		return []Attempt{}, nil
	}
	return list, nil
}
