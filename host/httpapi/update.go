package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

const (
	updatesPath = "/v1/runs/{id}/updates/{name}"
	updatePath  = updatesPath + "/{update}"
)

type updateOutput struct {
	Status      int
	ContentType string `header:"Content-Type"`
	ID          string `header:"Update-ID"`
	Body        []byte
}

func (s *API) registerUpdates(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "update", Method: http.MethodPost, Path: updatesPath, MaxBodyBytes: maxBodyBytes,
		SkipValidateBody: true, Summary: "Ask a run to do something, and give its answer; the body is the input. 202 if it is " +
			"accepted and not answered within wait, 422 if it is refused or has failed"},
		func(ctx context.Context, in *struct {
			RunPath
			Name    string `path:"name"`
			Key     string `header:"Idempotency-Key" doc:"id of the update; without it, a random one"`
			Wait    string `query:"wait" default:"30s" doc:"duration text, at most 1m; 0s answers when it is accepted"`
			RawBody []byte
		}) (*updateOutput, error) {
			hold, cancel, err := held(ctx, in.Wait)
			if err != nil {
				return nil, err
			}
			defer cancel()
			opts := []host.UpdateOption{host.UntilAccepted()}
			if in.Key != "" {
				opts = append(opts, host.WithUpdateID(in.Key))
			}
			var input any
			if len(in.RawBody) > 0 {
				if err := checkJSON(fmt.Sprintf("the input of update %q", in.Name), in.RawBody); err != nil {
					return nil, err
				}
				input = raw(in.RawBody)
			}
			u, err := namespaceFrom(ctx).Update(ctx, in.ID, in.Name, input, opts...)
			in.RawBody = nil // the answer may take a minute
			used(ctx)
			return updated(ctx, hold, u, err)
		})
	optionalBody(api, updatesPath)
	huma.Register(api, huma.Operation{OperationID: "update-result", Method: http.MethodGet, Path: updatePath,
		Summary: "Give the answer to an update by its id; 202 while there is none, 422 if it has failed"},
		func(ctx context.Context, in *struct {
			RunPath
			Name   string `path:"name"`
			Update string `path:"update"`
			Wait   string `query:"wait" doc:"duration text, at most 1m"`
		}) (*updateOutput, error) {
			hold, cancel, err := held(ctx, cmp.Or(in.Wait, "0s"))
			if err != nil {
				return nil, err
			}
			defer cancel()
			u, err := namespaceFrom(ctx).UpdateResult(ctx, in.ID, in.Name, in.Update, false)
			return updated(ctx, hold, u, err)
		})
}

// updated answers with the state of an update, after waiting for its end as long as hold lasts.
func updated(ctx, hold context.Context, u host.Update, err error) (*updateOutput, error) {
	if err == nil && u.Status == host.UpdateAccepted && hold.Err() == nil {
		later, e := namespaceFrom(ctx).UpdateResult(hold, u.Run, u.Name, u.ID, true)
		if e == nil || hold.Err() == nil && !errors.Is(e, host.ErrClosed) { // otherwise there is no answer yet
			u, err = later, e
		}
	}
	if failure, ok := errors.AsType[*host.UpdateError](err); ok {
		p := &Problem{Type: "about:blank", Title: "update failed", Status: http.StatusUnprocessableEntity, Code: "update_failed",
			Detail: failure.Error(), Update: &failure.Update, Failure: failure.Update.Failure}
		if failure.Refused {
			p.Title, p.Code, p.Update = "update refused", "update_refused", nil
		}
		return nil, p
	}
	if err != nil {
		return nil, failed(err)
	}
	if u.Status == host.UpdateAccepted {
		b, err := marshal(u)
		return &updateOutput{http.StatusAccepted, "application/json", u.ID, b}, err
	}
	return &updateOutput{http.StatusOK, contentType(u.Result), u.ID, u.Result}, nil
}
