package httpapi

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/host"
)

// namespaceKey is the context key of the request's *host.Namespace.
type namespaceKey struct{}

// namespaceFrom returns the namespace of a request.
func namespaceFrom(ctx context.Context) *host.Namespace {
	return ctx.Value(namespaceKey{}).(*host.Namespace) //nolint:forcetypeassert // ServeHTTP has set it
}

// namespaceOf returns the namespace that a request names, empty for the default one.
func namespaceOf(r *http.Request) (string, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // the rest of the query would be ignored
		return "", problem(http.StatusBadRequest, "invalid", "the query cannot be read: %v", err)
	}
	name := q.Get("namespace")
	if name == "" && q.Has("namespace") {
		return "", problem(http.StatusBadRequest, "invalid", "the parameter namespace is empty")
	}
	return name, nil
}

// attributePrefix is the prefix of list parameters that are attributes of runs.
const attributePrefix = "attr."

// parameters are the query parameters of an operation: by name, whether a parameter may be repeated.
type parameters map[string]bool

// parametersOf returns the query parameters of each operation by its pattern.
func parametersOf(api huma.API) map[string]parameters {
	all := map[string]parameters{}
	for path, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op == nil {
				continue
			}
			names := parameters{"namespace": false} // the command sends it with every request
			for _, p := range op.Parameters {
				if p.In == "query" {
					names[p.Name] = p.Explode != nil && *p.Explode
				}
			}
			all[op.Method+" "+path] = names
		}
	}
	return all
}

// checkParameters refuses unknown parameters: ignoring a misspelt one could lift a bound on what the request does.
func (s *API) checkParameters(r *http.Request, pattern string) error {
	known, ok := s.parameters[pattern]
	if !ok {
		return nil
	}
	for name, values := range r.URL.Query() { // parsed before
		several, ok := known[name]
		if !ok && pattern == listPattern && strings.HasPrefix(name, attributePrefix) { // checked with its values
			continue
		}
		if !ok {
			return problem(http.StatusBadRequest, "invalid", "there is no parameter %.80q; there are %q", name,
				slices.Sorted(maps.Keys(known)))
		}
		if !several && len(values) > 1 {
			return problem(http.StatusBadRequest, "invalid", "the parameter %q is given %d times: once is enough", name, len(values))
		}
	}
	return nil
}

// withNamespace returns the request with the named namespace in its context.
func (s *API) withNamespace(r *http.Request, name string) (*http.Request, error) {
	ns, err := s.h.Namespace(r.Context(), name)
	if err != nil {
		return nil, failed(err)
	}
	return r.WithContext(context.WithValue(r.Context(), namespaceKey{}, ns)), nil
}

func (s *API) registerNamespaces(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: namespacesID, Method: http.MethodGet, Path: "/v1/namespaces",
		Summary: "List the namespaces that the caller's token is for"},
		func(ctx context.Context, _ *struct{}) (*listOutput[host.NamespaceInfo], error) {
			list, err := s.h.Namespaces(ctx)
			list = slices.DeleteFunc(list, func(n host.NamespaceInfo) bool { return !callerOf(ctx).Allows(host.ScopeRead, n.Name) })
			return listed(list, err)
		})
	huma.Register(api, huma.Operation{OperationID: "set-quota", Method: http.MethodPut, Path: "/v1/namespaces/{name}",
		Summary: "Set a namespace's quota, in place of the old one; without any limit, remove it"},
		func(ctx context.Context, in *struct {
			Name string `path:"name"`
			Body host.Quota
		}) (*struct{ Body host.NamespaceInfo }, error) {
			if err := s.h.SetQuota(ctx, in.Name, in.Body); err != nil {
				return nil, failed(err)
			}
			list, err := s.h.Namespaces(ctx)
			i := slices.IndexFunc(list, func(n host.NamespaceInfo) bool { return n.Name == in.Name })
			if err != nil || i < 0 {
				return nil, failed(err)
			}
			return &struct{ Body host.NamespaceInfo }{list[i]}, nil
		})
}

// namespaceRates limits the rates of requests by namespace, for namespaces with a quota of them.
type namespaceRates struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

// check returns a problem if the request exceeds the quota of its namespace.
func (s *namespaceRates) check(w http.ResponseWriter, r *http.Request) error {
	ns := namespaceFrom(r.Context())
	perSecond, err := ns.RequestsPerSecond(r.Context())
	if err != nil || perSecond == 0 { // a missing namespace has no quota
		return nil //nolint:nilerr // the endpoint says so
	}
	limit := rate.Limit(perSecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]*rate.Limiter{}
	}
	l := s.by[ns.Name()]
	if l == nil || l.Limit() != limit {
		l = rate.NewLimiter(limit, int(perSecond))
		s.by[ns.Name()] = l
	}
	if l.Allow() {
		return nil
	}
	w.Header().Set("Retry-After", "1")
	return problem(http.StatusTooManyRequests, "busy",
		"more than %d requests a second for the namespace at this server, its quota; try again", perSecond)
}

const namespacesID = "namespaces"

// describeNamespace adds the parameter namespace to the description of each operation that takes it.
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
