package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// exportPattern is the endpoint that returns a whole run, including its module.
const exportPattern = "GET /v1/runs/{id}/export"

// archiveType is the content type of an exported run.
const archiveType = "application/x-tar"

func (s *API) registerExport(api huma.API) {
	answer := map[string]*huma.Response{"200": {Description: "a tar, whose last member is manifest.json; one without was cut",
		Content: map[string]*huma.MediaType{archiveType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}
	type input struct {
		ID     string `path:"id"`
		Module bool   `query:"module" default:"true" doc:"false leaves the module out"`
		Newest bool   `query:"newest_iteration" doc:"leaves out the journals of the iterations before the newest one"`
	}
	for _, move := range []bool{false, true} {
		op := huma.Operation{OperationID: "export-run", Method: http.MethodGet, Path: "/v1/runs/{id}/export", Responses: answer,
			Summary: "Write a run as one file: its state, module, journals, log and output, in the clear"}
		if move {
			op = huma.Operation{OperationID: "move-run", Method: http.MethodPost, Path: "/v1/runs/{id}/move", Responses: answer,
				Summary: "Set a run aside, and write it as one file, to go on in another installation"}
		}
		huma.Register(api, op, func(ctx context.Context, in *input) (*huma.StreamResponse, error) {
			return &huma.StreamResponse{Body: func(c huma.Context) {
				out := &archiveWriter{c: c, of: ctx}
				err := namespaceFrom(ctx).Export(ctx, in.ID, out, host.ExportOptions{WithoutModule: !in.Module, Move: move,
					NewestIteration: in.Newest})
				switch {
				case err != nil && !out.begun:
					(&stream{c: c}).problem(failed(err))
				case err != nil:
					panic(http.ErrAbortHandler) // only an abort tells the receiver
				}
			}}, nil
		})
	}
}

// archiveWriter is an answer that writes its headers with its first byte.
type archiveWriter struct {
	c     huma.Context
	of    context.Context
	begun bool
}

// Write implements io.Writer.
func (w *archiveWriter) Write(b []byte) (int, error) {
	if err := endOf(w.of); err != nil { // a move is not a GET, so answered does not check it
		return 0, err
	}
	if !w.begun {
		w.begun = true
		w.c.SetHeader("Content-Type", archiveType)
		w.c.SetHeader("Cache-Control", "no-store")
	}
	return w.c.BodyWriter().Write(b)
}
