package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// maxBulk bounds the runs that one bulk request matches and changes. The next request continues with the rest.
const maxBulk = 10_000

// BulkRequest asks for one action on many runs.
type BulkRequest struct {
	Action     string            `json:"action" enum:"cancel,terminate,pause,unpause,retry,delete"`
	Workflow   string            `json:"workflow,omitempty"`
	Status     string            `json:"status,omitempty" doc:"one or more statuses, separated by commas"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Where      []string          `json:"where,omitempty" doc:"conditions of attributes, such as amount>=100; all must hold"`
	All        bool              `json:"all,omitempty" doc:"needed to change runs without workflow, status, attributes or where"`
	DryRun     bool              `json:"dry_run,omitempty" doc:"only say which runs it would be"`
	Limit      int               `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"10000"`
}

// BulkAnswer reports what a bulk request did.
type BulkAnswer struct {
	Matched int           `json:"matched"`
	Changed int           `json:"changed"`
	Runs    []string      `json:"runs"` // the ids of the runs that were changed, or would be
	Errors  []BulkRefusal `json:"errors"`
	More    bool          `json:"more"` // the limit was reached
}

// BulkRefusal says why a run was not changed.
type BulkRefusal struct {
	Run    string `json:"run"`
	Detail string `json:"detail"`
}

func (s *API) registerChanges(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "retry", Method: http.MethodPost, Path: "/v1/runs/{id}/retry",
		Summary: "Let a failed or stuck run go on from the failure that ended it"},
		func(ctx context.Context, in *struct {
			RunPath
			Version uint32 `query:"version" maximum:"4294967295" doc:"go on under this version of the workflow"`
		}) (*struct{ Body Changed }, error) {
			if err := namespaceFrom(ctx).Retry(ctx, in.ID, in.Version); err != nil {
				return nil, failed(err)
			}
			return s.changed(ctx, in.ID, 1)
		})
	s.registerRestart(api)
	huma.Register(api, huma.Operation{OperationID: "delete", Method: http.MethodDelete, Path: "/v1/runs/{id}",
		Summary: "Delete an ended run", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *RunPath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Delete(ctx, in.ID))
		})
	huma.Register(api, huma.Operation{OperationID: "bulk", Method: http.MethodPost, Path: "/v1/runs:bulk",
		Summary: "Do one thing to all runs that a filter selects"},
		func(ctx context.Context, in *struct{ Body BulkRequest }) (*struct{ Body BulkAnswer }, error) {
			return s.bulk(ctx, in.Body)
		})
}

// act performs an action that takes only the run, and reports whether it changed anything.
func (s *API) act(ctx context.Context, action, id string) (bool, error) {
	switch action {
	case "cancel":
		return namespaceFrom(ctx).Cancel(ctx, id)
	case "pause":
		return namespaceFrom(ctx).Pause(ctx, id)
	case "unpause":
		return namespaceFrom(ctx).Unpause(ctx, id)
	case "terminate":
		return true, namespaceFrom(ctx).Terminate(ctx, id)
	case "retry":
		return true, namespaceFrom(ctx).Retry(ctx, id, 0)
	}
	return true, namespaceFrom(ctx).Delete(ctx, id)
}

func (s *API) bulk(ctx context.Context, req BulkRequest) (*struct{ Body BulkAnswer }, error) {
	if req.Workflow == "" && req.Status == "" && len(req.Attributes)+len(req.Where) == 0 && !req.All && !req.DryRun {
		return nil, problem(http.StatusBadRequest, "invalid",
			"%s of all runs there are: say which by workflow, status or attributes, or by \"all\": true that it is all of them",
			req.Action)
	}
	statuses, err := parseStatuses(req.Status)
	if err != nil {
		return nil, err
	}
	where, err := parseWhere(req.Where)
	if err != nil {
		return nil, err
	}
	limit := req.Limit
	if limit == 0 {
		limit = maxBulk
	}
	var ids []string
	q := host.Query{Workflow: req.Workflow, Statuses: statuses, Attributes: req.Attributes, Where: where, Limit: limit + 1}
	for r, err := range namespaceFrom(ctx).Runs(ctx, q) {
		if err != nil {
			return nil, failed(err)
		}
		ids = append(ids, r.ID)
	}
	a := BulkAnswer{Runs: []string{}, Errors: []BulkRefusal{}, More: len(ids) > limit}
	ids = ids[:min(len(ids), limit)]
	a.Matched = len(ids)
	for _, id := range ids {
		changed := true
		if !req.DryRun {
			changed, err = s.actAnywhere(ctx, req.Action, id)
			if err != nil {
				a.Errors = append(a.Errors, BulkRefusal{id, err.Error()})
				continue
			}
		}
		if changed {
			a.Runs = append(a.Runs, id)
		}
	}
	if !req.DryRun {
		a.Changed = len(a.Runs)
	}
	return &struct{ Body BulkAnswer }{a}, nil
}
