package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// namespaceKey is the key of the request's *host.Namespace in its context.
type namespaceKey struct{}

// space returns the namespace that a request is for.
func space(ctx context.Context) *host.Namespace {
	return ctx.Value(namespaceKey{}).(*host.Namespace) //nolint:forcetypeassert // ServeHTTP has set it
}

// namespaceOf returns the namespace that a request names, empty for the default one.
func namespaceOf(r *http.Request) (string, error) {
	if !strings.Contains(r.URL.RawQuery, "namespace") {
		return "", nil
	}
	q := r.URL.Query()
	name := q.Get("namespace")
	if name == "" && q.Has("namespace") {
		return "", problem(http.StatusBadRequest, "invalid", "the parameter namespace is empty")
	}
	return name, nil
}

// withNamespace returns the request with the namespace of a name in its context.
func (s *Server) withNamespace(r *http.Request, name string) (*http.Request, error) {
	ns, err := s.h.Namespace(r.Context(), name)
	if err != nil {
		return nil, failed(err)
	}
	return r.WithContext(context.WithValue(r.Context(), namespaceKey{}, ns)), nil
}

func (s *Server) registerNamespaces(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: namespacesID, Method: http.MethodGet, Path: "/v1/namespaces",
		Summary: "List the namespaces that the caller's token is for"},
		func(ctx context.Context, _ *struct{}) (*struct{ Body []host.NamespaceInfo }, error) {
			list, err := s.h.Namespaces(ctx)
			list = slices.DeleteFunc(list, func(n host.NamespaceInfo) bool { return !callerOf(ctx).Allows(host.ScopeRead, n.Name) })
			return &struct{ Body []host.NamespaceInfo }{list}, failed(err)
		})
}

const namespacesID = "namespaces"

// describeNamespace adds the parameter to the description of each operation that has one.
func describeNamespace(api huma.API) {
	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op != nil && !everywhere[op.Method+" "+op.Path] && !whole[op.Method+" "+op.Path] {
				op.Parameters = append(op.Parameters, &huma.Param{Name: "namespace", In: "query",
					Description: "of the workflows and runs that the request is for; default without it",
					Schema:      &huma.Schema{Type: huma.TypeString}})
			}
		}
	}
}
