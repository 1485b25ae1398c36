package httpapi

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

type uploadInput struct {
	Workflow string   `path:"workflow"`
	Only     []string `query:"workflow,explode" doc:"make versions of these workflows of the module, and of no others"`
	Grants
	RawBody []byte `contentType:"application/wasm"`
}

// Grants are the parameters of an upload that grant the version access.
type Grants struct {
	AllowStep []string `query:"allow_step,explode" doc:"handlers that the version may call"`
	AllowHTTP []string `query:"allow_http,explode" doc:"hosts that the version may make requests to"`
	Secret    []string `query:"allow_secret,explode" doc:"NAME=host,Header: secrets that the version may send there"`
}

// options converts the grants for the host.
func (in *Grants) options() (opts []host.UploadOption) {
	if len(in.AllowStep) > 0 {
		opts = append(opts, host.AllowStep(in.AllowStep...))
	}
	if len(in.AllowHTTP) > 0 {
		opts = append(opts, host.AllowHTTP(in.AllowHTTP...))
	}
	for _, text := range in.Secret {
		opts = append(opts, host.AllowSecretText(text))
	}
	return opts
}

// check refuses grants that a caller may not give. The scope upload allows running code; access to the outside needs
// an administrator of the namespace. Secrets, and addresses that only the server may reach, need a token for all
// namespaces.
func (in *Grants) check(c *caller) error {
	if len(in.AllowStep)+len(in.AllowHTTP)+len(in.Secret) == 0 {
		return nil
	}
	if !c.Allows(host.ScopeAdmin, c.in) {
		return problem(http.StatusForbidden, "scope", "allow_step, allow_http, allow_secret: %s", c.refusal(host.ScopeAdmin, c.in))
	}
	if c.Namespace == "" {
		return nil
	}
	if len(in.Secret) > 0 {
		return problem(http.StatusForbidden, "scope",
			"secrets are the server's: allow_secret needs a token for all namespaces, the token %s is for %q", c.ID, c.Namespace)
	}
	for _, text := range in.AllowHTTP {
		if ownAddress(text) {
			return problem(http.StatusForbidden, "scope",
				"allow_http %.100q names an address, maybe the server's own: it needs a token for all namespaces, the token %s is for %q",
				text, c.ID, c.Namespace)
		}
	}
	return nil
}

// ownAddress reports whether a grant names an address in place of a public name. The addresses of names are checked
// when they are dialled; addresses in grants are allowed, whatever they are.
func ownAddress(grant string) bool {
	if _, rest, ok := strings.Cut(grant, "://"); ok {
		grant = rest
	}
	name := grant
	if h, _, err := net.SplitHostPort(grant); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	_, err := strconv.ParseUint(last, 0, 64) // 127.1, 0x7f000001: no domain ends with a number
	return err == nil || net.ParseIP(name) != nil || last == "localhost"
}

type versionsOutput struct {
	Status int
	Body   List[host.Version]
}

func (s *API) registerWorkflows(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "upload", Method: http.MethodPut,
		Path: "/v1/workflows/{workflow}/versions", MaxBodyBytes: abi.MaxModuleBytes + 1,
		Summary: "Upload a module as the next version of its workflows; the name - names none of them"},
		func(ctx context.Context, in *uploadInput) (*versionsOutput, error) {
			if err := in.check(callerOf(ctx)); err != nil {
				return nil, err
			}
			opts := append(in.options(), host.OnlyWorkflows(in.Only...))
			if in.Workflow == "-" {
				in.Workflow = ""
			}
			versions, err := namespaceFrom(ctx).UploadAll(ctx, in.Workflow, in.RawBody, opts...)
			if err != nil {
				return nil, failed(err)
			}
			out := &versionsOutput{Status: http.StatusOK, Body: List[host.Version]{Items: versions}}
			for _, v := range versions {
				if v.New {
					out.Status = http.StatusCreated
				}
			}
			return out, nil
		})
	huma.Register(api, huma.Operation{OperationID: "workflows", Method: http.MethodGet, Path: "/v1/workflows",
		Summary: "List the versions of all workflows"},
		func(ctx context.Context, _ *struct{}) (*versionsOutput, error) { return s.versions(ctx) })
	huma.Register(api, huma.Operation{OperationID: "workflow", Method: http.MethodGet, Path: "/v1/workflows/{workflow}",
		Summary: "List the versions of one workflow, with the number of their live runs"},
		func(ctx context.Context, in *struct {
			Workflow string `path:"workflow"`
		}) (*versionsOutput, error) {
			versions, err := namespaceFrom(ctx).Workflows().LiveVersions(ctx, in.Workflow)
			return &versionsOutput{http.StatusOK, List[host.Version]{Items: versions}}, failed(err)
		})
}

type schemasInput struct {
	Workflow string `path:"workflow"`
	Version  uint32 `query:"version" maximum:"4294967295" doc:"default: the latest"`
}

func (s *API) registerSchemas(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "schemas", Method: http.MethodGet, Path: "/v1/workflows/{workflow}/schemas",
		Summary: "Show the JSON Schemas of a workflow's input, result and signals"},
		func(ctx context.Context, in *schemasInput) (*struct{ Body any }, error) {
			x, err := namespaceFrom(ctx).Workflows().Schemas(ctx, in.Workflow, in.Version)
			return &struct{ Body any }{x}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "workflow-openapi", Method: http.MethodGet,
		Path:    "/v1/workflows/{workflow}/openapi.json",
		Summary: "Give an OpenAPI document of one workflow, with its schemas, for typed clients"},
		func(ctx context.Context, in *schemasInput) (*struct{ Body any }, error) {
			x, err := namespaceFrom(ctx).Workflows().Schemas(ctx, in.Workflow, in.Version)
			return &struct{ Body any }{openAPIOf(in.Workflow, x)}, failed(err)
		})
}

func (s *API) registerVersions(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "delete-version", Method: http.MethodDelete,
		Path:    "/v1/workflows/{workflow}/versions/{version}",
		Summary: "Delete a version that no run has; 409 while it is in use", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *struct {
			Workflow string `path:"workflow"`
			Version  uint32 `path:"version" minimum:"1" maximum:"4294967295"`
		}) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Workflows().DeleteVersion(ctx, in.Workflow, in.Version))
		})
}

func (s *API) versions(ctx context.Context) (*versionsOutput, error) {
	out := &versionsOutput{Status: http.StatusOK, Body: List[host.Version]{Items: []host.Version{}}}
	for v, err := range namespaceFrom(ctx).Workflows().Versions(ctx, "") {
		if err != nil {
			return nil, failed(err)
		}
		out.Body.Items = append(out.Body.Items, v)
	}
	return out, nil
}
