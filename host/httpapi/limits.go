package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// LimitsBody has the limits on the runs of a workflow.
type LimitsBody struct {
	Concurrency []string `json:"concurrency,omitempty" doc:"how many runs hold a slot at a time: 5, or 5 per input.customer"`
	Rate        []string `json:"rate,omitempty" doc:"how many runs begin within a window: 100/1m, or 100/1m per input.tenant"`
}

type limitsOutput struct{ Body host.WorkflowLimitInfo }

// LimitsPath names the workflow of a request.
type LimitsPath struct {
	Workflow string `path:"workflow"`
}

const limitsPath = "/v1/limits/{workflow}"

func (s *API) registerLimits(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "limits", Method: http.MethodGet, Path: "/v1/limits",
		Summary: "List the limits of workflows, with how many of their runs hold a slot, and how many wait for one"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.WorkflowLimitInfo], error) {
			list, err := namespaceFrom(ctx).WorkflowLimits().List(ctx)
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "limits-of", Method: http.MethodGet, Path: limitsPath,
		Summary: "Show the limits of a workflow"},
		func(ctx context.Context, in *LimitsPath) (*limitsOutput, error) {
			info, err := namespaceFrom(ctx).WorkflowLimits().Get(ctx, in.Workflow)
			return &limitsOutput{info}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "set-limits", Method: http.MethodPut, Path: limitsPath,
		Summary: "Set the limits of a workflow, in place of those that it had"},
		func(ctx context.Context, in *struct {
			LimitsPath
			Body LimitsBody
		}) (*limitsOutput, error) {
			l := host.WorkflowLimit{Workflow: in.Workflow, Concurrency: in.Body.Concurrency, Rate: in.Body.Rate}
			info, err := namespaceFrom(ctx).WorkflowLimits().Set(ctx, l)
			return &limitsOutput{info}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "delete-limits", Method: http.MethodDelete, Path: limitsPath,
		Summary: "Remove the limits of a workflow: all runs that wait begin", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *LimitsPath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).WorkflowLimits().Delete(ctx, in.Workflow))
		})
}
