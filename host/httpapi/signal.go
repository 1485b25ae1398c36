package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// Rate of answers to unknown hook tokens, which limits guessing: a token has 130 bits, and an occasional typo is not
// hindered.
const (
	missesPerSecond = 10
	missesAtOnce    = 50
)

func (s *API) registerSignals(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "signal", Method: http.MethodPost,
		Path: "/v1/runs/{id}/signals/{name}", MaxBodyBytes: maxBodyBytes, SkipValidateBody: true,
		DefaultStatus: http.StatusAccepted, Summary: "Send a signal to a run; the body is its payload"},
		func(ctx context.Context, in *struct {
			RunPath
			Name    string `path:"name"`
			Key     string `header:"Idempotency-Key"`
			RawBody []byte
		}) (*struct{}, error) {
			declared, err := namespaceFrom(ctx).SignalsOf(ctx, in.ID)
			if err == nil {
				if err := checkSignal(declared, in.Name, in.RawBody); err != nil {
					return nil, err
				}
				err = namespaceFrom(ctx).SignalRaw(ctx, in.ID, in.Name, in.RawBody, keyOption(in.Key)...)
			}
			return nil, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "query", Method: http.MethodPost,
		Path: "/v1/runs/{id}/queries/{name}", MaxBodyBytes: maxBodyBytes, SkipValidateBody: true,
		Summary: "Ask a run a question that its workflow offers; the body is its input"},
		func(ctx context.Context, in *struct {
			RunPath
			Name    string `path:"name"`
			RawBody []byte
		}) (*resultOutput, error) {
			return s.query(ctx, in.ID, in.Name, in.RawBody)
		})
	huma.Register(api, huma.Operation{OperationID: "query-get", Method: http.MethodGet,
		Path: "/v1/runs/{id}/queries/{name}", Summary: "Ask a run a question without an input"},
		func(ctx context.Context, in *struct {
			RunPath
			Name string `path:"name"`
		}) (*resultOutput, error) {
			return s.query(ctx, in.ID, in.Name, nil)
		})
	optionalBody(api, "/v1/runs/{id}/signals/{name}", "/v1/runs/{id}/queries/{name}")
	// The workflow's reply is the answer to a delivery, which huma cannot serve; here it is only described.
	api.OpenAPI().AddOperation(&huma.Operation{OperationID: "deliver", Method: http.MethodPost, Path: "/v1/hooks/{token}",
		Summary:    "Deliver the body to the run that holds a token, as a signal of its hook's name",
		Parameters: []*huma.Param{{Name: "token", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}},
		Responses: map[string]*huma.Response{
			"202": {Description: "Durable; or another status below 300, content type and body, as the workflow has said"},
			"404": {Description: "No run holds this token"}, "429": {Description: "Too much at once"},
			"507": {Description: "The disk is nearly full"},
		}})
}

// checkSignal refuses signals that the workflow does not declare, and payloads of declared signals that are not JSON.
// A workflow that declares no signals takes any name and any bytes.
func checkSignal(declared []string, name string, payload []byte) error {
	switch {
	case len(declared) == 0:
		return nil
	case !slices.Contains(declared, name):
		return problem(http.StatusUnprocessableEntity, "invalid", "the workflow receives the signals %q, got %.200q",
			declared, name)
	case len(payload) > 0:
		return checkJSON(fmt.Sprintf("the payload of signal %q", name), payload)
	}
	return nil
}

// checkJSON returns a problem for invalid JSON. what names the value.
func checkJSON(what string, b []byte) error {
	if e, ok := errors.AsType[*abi.Error](abi.CheckJSON(what, b)); ok {
		return problem(http.StatusUnprocessableEntity, "invalid", "%s", e.Message)
	}
	return nil
}

func keyOption(key string) []host.SignalOption {
	if key == "" {
		return nil
	}
	return []host.SignalOption{host.WithIdempotencyKey(key)}
}

// optionalBody makes the body of a POST optional, which huma's types cannot express for raw bytes.
func optionalBody(api huma.API, paths ...string) {
	for _, p := range paths {
		api.OpenAPI().Paths[p].Post.RequestBody.Required = false
	}
}

// raw is bytes that are encoded as the JSON that they are.
type raw []byte

// MarshalJSON returns the bytes.
func (r raw) MarshalJSON() ([]byte, error) { return r, nil }

func (s *API) query(ctx context.Context, id, name string, input []byte) (*resultOutput, error) {
	var in any
	if len(input) > 0 {
		if err := checkJSON(fmt.Sprintf("the input of query %q", name), input); err != nil {
			return nil, err
		}
		in = raw(input)
	}
	b, err := namespaceFrom(ctx).Query(ctx, id, name, in)
	if q, ok := errors.AsType[*host.QueryError](err); ok && !errors.Is(err, host.ErrNotFound) {
		return nil, problem(http.StatusUnprocessableEntity, "query_failed", "%v", q)
	}
	if err != nil {
		return nil, failed(err)
	}
	return &resultOutput{http.StatusOK, contentType(b), b}, nil
}

// deliver delivers a posted body to a hook. Unknown tokens all get the same answer before the body is read, and do not
// count against the quota of any namespace.
func (s *API) deliver(w http.ResponseWriter, r *http.Request) {
	ctx, token := r.Context(), r.PathValue("token")
	if err := namespaceFrom(ctx).Hooks().Check(ctx, token); err != nil {
		s.undelivered(w, r, err)
		return
	}
	if err := s.namespaceRates.check(w, r); err != nil {
		s.hold(r, callerOf(ctx), err)
		writeProblem(w, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, abi.MaxPayloadBytes))
	if err != nil {
		writeProblem(w, badBody(err, abi.MaxPayloadBytes))
		return
	}
	reply, err := namespaceFrom(ctx).Hooks().Deliver(ctx, token, body, keyOption(r.Header.Get("Idempotency-Key"))...)
	if err != nil { // also if the hook has ended meanwhile
		s.undelivered(w, r, err)
		return
	}
	if a, ok := w.(*answered); ok {
		a.changed = true
	}
	if reply.ContentType != "" || reply.Body != "" {
		w.Header().Set("Content-Type", replyType(reply.ContentType)) // a workflow wrote the body
	}
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, reply.Body) // the client is gone
}

// undelivered answers why nothing was delivered to a hook.
func (s *API) undelivered(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, host.ErrNotFound) && !s.misses.Allow():
		s.brake.Delay(r.Context(), s.siteOf(r), 0)
		w.Header().Set("Retry-After", "1")
		err = problem(http.StatusTooManyRequests, "busy", "too many deliveries to tokens that nobody holds")
	case errors.Is(err, host.ErrDiskFull): // its message names a folder, which callers of hooks must not see
		err = problem(http.StatusInsufficientStorage, "disk_full", "the server has no room for this; try again later")
	}
	writeProblem(w, failed(err))
}
