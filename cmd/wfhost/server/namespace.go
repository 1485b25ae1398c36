package server

import (
	"context"
	"net/http"
	"net/url"
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
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // whatever is behind it would be left out
		return "", problem(http.StatusBadRequest, "invalid", "the query cannot be read: %v", err)
	}
	name := q.Get("namespace")
	if name == "" && q.Has("namespace") {
		return "", problem(http.StatusBadRequest, "invalid", "the parameter namespace is empty")
	}
	return name, nil
}

// attributePrefix begins the parameters of lists that are attributes of runs.
const attributePrefix = "attr."

// parametersOf returns the parameters of the query that each operation takes, by its pattern.
func parametersOf(api huma.API) map[string][]string {
	all := map[string][]string{}
	for path, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op == nil {
				continue
			}
			names := []string{"namespace"} // the command sends it with every request
			for _, p := range op.Parameters {
				if p.In == "query" && p.Name != "namespace" {
					names = append(names, p.Name)
				}
			}
			slices.Sort(names)
			all[op.Method+" "+path] = names
		}
	}
	return all
}

// checkParameters refuses parameters that nobody would read: one that is misspelt may be that which bounds what is done.
func (s *Server) checkParameters(r *http.Request, pattern string) error {
	known, ok := s.parameters[pattern]
	if !ok {
		return nil
	}
	for name := range r.URL.Query() { // it was parsed before
		if !slices.Contains(known, name) && (pattern != listPattern || !strings.HasPrefix(name, attributePrefix)) {
			return problem(http.StatusBadRequest, "invalid", "there is no parameter %.80q; there are %q", name, known)
		}
	}
	return nil
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
