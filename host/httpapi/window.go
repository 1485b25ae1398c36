package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// StartWindowBody has the start window of a workflow, which merges starts.
type StartWindowBody struct {
	Debounce string `json:"debounce,omitempty" doc:"a quiet time: 10s, or 10s per input.customer"`
	Longest  string `json:"longest,omitempty" doc:"of a debounce: how long after the first start its run begins at the latest"`
	Throttle string `json:"throttle,omitempty" doc:"in place of a debounce: one start within 1h, or 1h per input.customer"`
}

const startWindowPath = "/v1/start-windows/{workflow}"

func (s *API) registerStartWindows(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "start-windows", Method: http.MethodGet, Path: "/v1/start-windows",
		Summary: "List the debounces and throttles of the starts of workflows"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.StartWindow], error) {
			list, err := namespaceFrom(ctx).StartWindows().List(ctx)
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "set-start-window", Method: http.MethodPut, Path: startWindowPath,
		Summary: "Set the debounce or the throttle of the starts of a workflow"},
		func(ctx context.Context, in *struct {
			LimitsPath
			Body StartWindowBody
		}) (*struct{ Body host.StartWindow }, error) {
			w, err := namespaceFrom(ctx).StartWindows().Set(ctx, host.StartWindow{Workflow: in.Workflow, Debounce: in.Body.Debounce,
				Longest: in.Body.Longest, Throttle: in.Body.Throttle})
			return &struct{ Body host.StartWindow }{w}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "delete-start-window", Method: http.MethodDelete, Path: startWindowPath,
		Summary: "Remove the debounce or throttle of a workflow", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *LimitsPath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).StartWindows().Delete(ctx, in.Workflow))
		})
}
