package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

type uploadInput struct {
	Workflow  string   `path:"workflow"`
	Only      []string `query:"workflow,explode" doc:"make versions of these workflows of the module, and of no others"`
	AllowStep []string `query:"allow_step,explode" doc:"handlers that the version may call"`
	AllowHTTP []string `query:"allow_http,explode" doc:"hosts that the version may make requests to"`
	Secret    []string `query:"allow_secret,explode" doc:"NAME=host,Header: secrets that the version may send there"`
	RawBody   []byte   `contentType:"application/wasm"`
}

type versionsOutput struct {
	Status int
	Body   []host.Version
}

func (s *Server) registerWorkflows(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "upload", Method: http.MethodPut,
		Path: "/v1/workflows/{workflow}/versions", MaxBodyBytes: abi.MaxModuleBytes + 1,
		Summary: "Upload a module as the next version of its workflows; the name - names none of them"},
		func(ctx context.Context, in *uploadInput) (*versionsOutput, error) {
			opts := []host.UploadOption{host.OnlyWorkflows(in.Only...)}
			if len(in.AllowStep) > 0 {
				opts = append(opts, host.AllowStep(in.AllowStep...))
			}
			if len(in.AllowHTTP) > 0 {
				opts = append(opts, host.AllowHTTP(in.AllowHTTP...))
			}
			for _, text := range in.Secret {
				opts = append(opts, host.AllowSecretText(text))
			}
			if in.Workflow == "-" {
				in.Workflow = ""
			}
			versions, err := space(ctx).UploadAll(ctx, in.Workflow, in.RawBody, opts...)
			if err != nil {
				return nil, failed(err)
			}
			out := &versionsOutput{Status: http.StatusOK, Body: versions}
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
			versions, err := space(ctx).LiveVersions(ctx, in.Workflow)
			return &versionsOutput{Status: http.StatusOK, Body: versions}, failed(err)
		})
}

func (s *Server) registerVersions(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "delete-version", Method: http.MethodDelete,
		Path:    "/v1/workflows/{workflow}/versions/{version}",
		Summary: "Delete a version that no run has; 409 while it is in use", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *struct {
			Workflow string `path:"workflow"`
			Version  uint32 `path:"version" minimum:"1" maximum:"4294967295"`
		}) (*struct{}, error) {
			return nil, failed(space(ctx).DeleteVersion(ctx, in.Workflow, in.Version))
		})
}

func (s *Server) versions(ctx context.Context) (*versionsOutput, error) {
	out := &versionsOutput{Status: http.StatusOK, Body: []host.Version{}}
	for v, err := range space(ctx).Versions(ctx, "") {
		if err != nil {
			return nil, failed(err)
		}
		out.Body = append(out.Body, v)
	}
	return out, nil
}
