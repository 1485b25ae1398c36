package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// OthersName stands for all workflows of a namespace without a retention of their own.
const OthersName = "-"

// Retention is how long ended runs are kept, as duration text.
type Retention struct {
	Workflow   string `json:"workflow,omitempty" doc:"- stands for all that have none of their own"`
	Completed  string `json:"completed,omitempty" doc:"duration text such as 30d; for ever without it"`
	Failed     string `json:"failed,omitempty"`
	Cancelled  string `json:"cancelled,omitempty"`
	Terminated string `json:"terminated,omitempty"`
	Keep       int    `json:"keep,omitempty" doc:"so many ended runs at most, whatever their status; any number without it"`

	KeepCompleted  int `json:"keep_completed,omitempty" doc:"so many completed runs at most; any number without it"`
	KeepFailed     int `json:"keep_failed,omitempty"`
	KeepCancelled  int `json:"keep_cancelled,omitempty"`
	KeepTerminated int `json:"keep_terminated,omitempty"`

	KeepIterations    int    `json:"keep_iterations,omitempty" doc:"so many earlier iterations; 10 without it, -1 for all"`
	KeepIterationsFor string `json:"keep_iterations_for,omitempty" doc:"and for so long after their end; for ever without it"`

	KeepIDsFor string `json:"keep_ids_for,omitempty" doc:"of - only: so long the id of a deleted run stays taken; 30d without it"`
}

// RetentionPath names the workflow of a request.
type RetentionPath struct {
	Workflow string `path:"workflow" doc:"- stands for all that have no retention of their own"`
}

func (s *API) registerRetention(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "retentions", Method: http.MethodGet, Path: "/v1/retention",
		Summary: "List how long ended runs are kept"},
		func(ctx context.Context, _ *struct{}) (*listOutput[Retention], error) {
			list, err := namespaceFrom(ctx).Retentions().List(ctx)
			out := []Retention{}
			for _, r := range list {
				out = append(out, retentionOf(r))
			}
			return listed(out, err)
		})
	huma.Register(api, huma.Operation{OperationID: "set-retention", Method: http.MethodPut, Path: "/v1/retention/{workflow}",
		Summary: "Set how long ended runs of a workflow are kept"},
		func(ctx context.Context, in *struct {
			RetentionPath
			Body Retention
		}) (*struct{ Body Retention }, error) {
			r, err := in.Body.parse(in.Workflow)
			if err != nil {
				return nil, err
			}
			if err := namespaceFrom(ctx).Retentions().Set(ctx, r); err != nil {
				return nil, failed(err)
			}
			return &struct{ Body Retention }{retentionOf(r)}, nil
		})
	huma.Register(api, huma.Operation{OperationID: "delete-retention", Method: http.MethodDelete, Path: "/v1/retention/{workflow}",
		Summary: "Remove what was set for a workflow", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *RetentionPath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Retentions().Delete(ctx, unlessOthers(in.Workflow)))
		})
	huma.Register(api, huma.Operation{OperationID: "sweep", Method: http.MethodPost, Path: "/v1/retention:sweep",
		Summary: "Delete the runs that are kept no longer, now, or only say which"},
		func(ctx context.Context, in *struct {
			DryRun bool `query:"dry_run" doc:"delete nothing"`
		}) (*struct{ Body host.Swept }, error) {
			swept, err := s.sweep(ctx, in.DryRun)
			return &struct{ Body host.Swept }{swept}, failed(err)
		})
}

// sweep sweeps the partitions of this host, and those of the others of the cluster after it.
func (s *API) sweep(ctx context.Context, dryRun bool) (host.Swept, error) {
	all, err := namespaceFrom(ctx).Retentions().Sweep(ctx, dryRun)
	if err != nil {
		return all, err
	}
	q := url.Values{"dry_run": {strconv.FormatBool(dryRun)}}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	for _, x := range s.others(ctx) {
		var swept host.Swept
		r, err := s.peerRequest(ctx, &x, http.MethodPost, "/v1/retention:sweep", q)
		if err == nil {
			err = s.doPeer(r, &x, &swept) // it takes as long as there is something to delete
		}
		if _, told := errors.AsType[*Problem](err); err != nil && !told {
			err = problem(http.StatusServiceUnavailable, "moved", "the host %q has not told what it sweeps: %v", x.Name, err)
		}
		if err != nil {
			return all, err
		}
		all.Deleted, all.Held = all.Deleted+swept.Deleted, all.Held+swept.Held
		all.Forgotten, all.Failed = all.Forgotten+swept.Forgotten, all.Failed+swept.Failed
		all.Runs = append(all.Runs, swept.Runs...)
		all.Runs = all.Runs[:min(len(all.Runs), host.MaxSweptRuns)]
	}
	return all, nil
}

func unlessOthers(workflow string) string {
	if workflow == OthersName {
		return ""
	}
	return workflow
}

// age pairs an age of a Retention with its field in host.Retention.
type age struct {
	name string
	text *string
	age  *time.Duration
}

func (r *Retention) ages(h *host.Retention) []age {
	return []age{{"completed", &r.Completed, &h.Completed}, {"failed", &r.Failed, &h.Failed},
		{"cancelled", &r.Cancelled, &h.Cancelled}, {"terminated", &r.Terminated, &h.Terminated},
		{"keep_iterations_for", &r.KeepIterationsFor, &h.KeepIterationsFor}, {"keep_ids_for", &r.KeepIDsFor, &h.KeepIDsFor}}
}

// parse converts the retention for the host.
func (r *Retention) parse(workflow string) (out host.Retention, err error) {
	if r.Workflow != "" && r.Workflow != workflow {
		return out, problem(http.StatusBadRequest, "invalid", "the path names workflow %q, the body %q", workflow, r.Workflow)
	}
	out = host.Retention{Workflow: unlessOthers(workflow), Keep: r.Keep, KeepCompleted: r.KeepCompleted, KeepFailed: r.KeepFailed,
		KeepCancelled: r.KeepCancelled, KeepTerminated: r.KeepTerminated, KeepIterations: r.KeepIterations}
	for _, x := range r.ages(&out) {
		if *x.text == "" {
			continue
		}
		ms, err := abi.ParseDuration(*x.text)
		if err != nil {
			return out, problem(http.StatusBadRequest, "invalid", "%s: %v", x.name, err)
		}
		*x.age = abi.Duration(ms)
	}
	return out, nil
}

// retentionOf converts a retention of the host.
func retentionOf(r host.Retention) Retention {
	out := Retention{Workflow: r.Workflow, Keep: r.Keep, KeepCompleted: r.KeepCompleted, KeepFailed: r.KeepFailed,
		KeepCancelled: r.KeepCancelled, KeepTerminated: r.KeepTerminated, KeepIterations: r.KeepIterations}
	if out.Workflow == "" {
		out.Workflow = OthersName
	}
	for _, x := range out.ages(&r) {
		if *x.age != 0 {
			*x.text = abi.FormatDuration(abi.Milliseconds(*x.age))
		}
	}
	return out
}
