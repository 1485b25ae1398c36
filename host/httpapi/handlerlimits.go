package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

type handlerLimitsOutput struct{ Body host.HandlerLimitInfo }

// HandlerPath names the handler of a request.
type HandlerPath struct {
	Handler string `path:"handler"`
}

const handlerLimitsPath = "/v1/handler-limits/{handler}"

func (s *API) registerHandlerLimits(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "handler-limits", Method: http.MethodGet, Path: "/v1/handler-limits",
		Summary: "List the limits of handlers, with how many attempts hold a slot on this server, and how many wait for one"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.HandlerLimitInfo], error) {
			list, err := namespaceFrom(ctx).HandlerLimits().List(ctx)
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "handler-limits-of", Method: http.MethodGet, Path: handlerLimitsPath,
		Summary: "Show the limits of a handler"},
		func(ctx context.Context, in *HandlerPath) (*handlerLimitsOutput, error) {
			info, err := namespaceFrom(ctx).HandlerLimits().Get(ctx, in.Handler)
			return &handlerLimitsOutput{info}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "set-handler-limits", Method: http.MethodPut, Path: handlerLimitsPath,
		Summary: "Set the limits of a handler's attempts, in place of those that it had"},
		func(ctx context.Context, in *struct {
			HandlerPath
			Body LimitsBody
		}) (*handlerLimitsOutput, error) {
			l := host.HandlerLimit{Handler: in.Handler, Concurrency: in.Body.Concurrency, Rate: in.Body.Rate}
			info, err := namespaceFrom(ctx).HandlerLimits().Set(ctx, l)
			return &handlerLimitsOutput{info}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "delete-handler-limits", Method: http.MethodDelete, Path: handlerLimitsPath,
		Summary: "Remove the limits of a handler: all attempts that wait begin", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *HandlerPath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).HandlerLimits().Delete(ctx, in.Handler))
		})
}
