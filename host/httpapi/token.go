package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// TokenRequest asks for a token.
type TokenRequest struct {
	Name      string       `json:"name,omitempty" doc:"for people"`
	Namespace string       `json:"namespace,omitempty" doc:"that which the token is for; without it, that of the request"`
	All       bool         `json:"all_namespaces,omitempty" doc:"the token is for all namespaces"`
	Scopes    []host.Scope `json:"scopes" doc:"read, work, run, operate, upload, admin"`
	Expires   string       `json:"expires,omitempty" doc:"duration text: how long the token lasts; for ever without it"`
}

// NewToken is a token with its text, which is shown once.
type NewToken struct {
	host.Token
	Text string `json:"token"`
}

func (s *API) registerTokens(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "tokens", Method: http.MethodGet, Path: "/v1/tokens",
		Summary: "List the tokens, without their texts; those of one namespace, if the caller's token is for one"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.Token], error) {
			list, err := s.tokens(ctx)
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "token-create", Method: http.MethodPost, Path: "/v1/tokens",
		Summary: "Create a token; its text is in the answer and nowhere else", DefaultStatus: http.StatusCreated},
		func(ctx context.Context, in *struct {
			Namespace string `query:"namespace"`
			Body      TokenRequest
		}) (*struct{ Body NewToken }, error) {
			return s.createToken(ctx, in.Namespace, in.Body)
		})
	huma.Register(api, huma.Operation{OperationID: "token-revoke", Method: http.MethodDelete, Path: "/v1/tokens/{token}",
		Summary: "Revoke a token by its id: no request is accepted with it any more", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *struct {
			ID string `path:"token"`
		}) (*struct{}, error) {
			list, err := s.tokens(ctx)
			if err != nil {
				return nil, failed(err)
			}
			if !slices.ContainsFunc(list, func(t host.Token) bool { return t.ID == in.ID }) {
				return nil, problem(http.StatusNotFound, "not_found", "token %q: not found", in.ID)
			}
			return nil, failed(s.h.Tokens().Revoke(ctx, in.ID))
		})
}

// tokens lists the tokens that a caller may see: all, or those of its namespace if it has one.
func (s *API) tokens(ctx context.Context) ([]host.Token, error) {
	list, err := s.h.Tokens().List(ctx)
	if own := callerOf(ctx).Namespace; own != "" {
		list = slices.DeleteFunc(list, func(t host.Token) bool { return t.Namespace != own })
	}
	return list, err
}

func (s *API) createToken(ctx context.Context, namespace string, req TokenRequest) (*struct{ Body NewToken }, error) {
	switch {
	case req.All && req.Namespace+namespace != "":
		return nil, problem(http.StatusBadRequest, "invalid", "a token is for all namespaces or for %q, not both",
			cmp.Or(req.Namespace, namespace))
	case req.Namespace != "" && namespace != "" && req.Namespace != namespace:
		return nil, problem(http.StatusBadRequest, "invalid", "the request is for the namespace %q, and the token for %q", namespace,
			req.Namespace)
	case !req.All:
		req.Namespace = cmp.Or(req.Namespace, namespace, "default")
	}
	if own := callerOf(ctx).Namespace; own != "" && req.Namespace != own {
		return nil, problem(http.StatusForbidden, "scope", "a token for the namespace %q makes tokens for that alone, not for %q", own,
			req.Namespace)
	}
	spec := host.TokenSpec{Name: req.Name, Namespace: req.Namespace, Scopes: req.Scopes}
	if req.Expires != "" {
		ms, err := abi.ParseDuration(req.Expires)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "expires: %v", err)
		}
		spec.TTL = abi.Duration(ms)
		if spec.TTL < time.Second {
			return nil, problem(http.StatusBadRequest, "invalid", "expires: a token lasts for at least 1s, got %s", req.Expires)
		}
	}
	text, t, err := s.h.Tokens().Create(ctx, spec)
	return &struct{ Body NewToken }{NewToken{t, text}}, failed(err)
}

// describeTokens describes the tokens of requests in the API's description, and the scope that each operation needs.
func describeTokens(api huma.API) {
	doc := api.OpenAPI()
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPut: item.Put,
			http.MethodPost: item.Post, http.MethodDelete: item.Delete} {
			if op == nil {
				continue
			}
			if scope := scopes[method+" "+path]; scope != public {
				op.Security = []map[string][]string{{"token": {}}}
				op.Description = "Scope: " + string(scope)
			}
		}
	}
}
