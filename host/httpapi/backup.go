package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// maxBackupRequest bounds the list of files that the receiver of a backup has: some 100,000 of them.
const maxBackupRequest = 32 << 20

// BackupRequest is the body of POST /v1/backup.
type BackupRequest struct {
	// BytesPerSecond bounds how fast the server reads: 0 is host.DefaultBackupRate, negative is unlimited.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
	// Have are the files of the newest backup that the receiver has, from its manifest: they are left out.
	Have []host.BackupFile `json:"have,omitempty"`
}

// backup answers with a backup as a tar stream, the manifest last. An error after the first byte cuts the connection.
func (s *API) backup(w http.ResponseWriter, r *http.Request) {
	var in BackupRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBackupRequest))
	if err != nil {
		writeProblem(w, badBody(err, maxBackupRequest))
		return
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		writeProblem(w, problem(http.StatusBadRequest, "invalid",
			"the body must be a JSON object with have and bytes_per_second: %v", err))
		return
	}
	out := &late{w: w}
	err = s.h.WriteBackup(r.Context(), out, host.BackupOptions{BytesPerSecond: in.BytesPerSecond, Have: in.Have})
	switch {
	case err != nil && !out.begun:
		writeProblem(w, failed(err))
	case err != nil:
		panic(http.ErrAbortHandler) // only an abort tells the receiver
	}
}

// describeBackup documents the backup, which is not an operation of huma.
func describeBackup(api huma.API) {
	body := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[BackupRequest](), true, "")
	api.OpenAPI().AddOperation(&huma.Operation{OperationID: "backup", Method: http.MethodPost, Path: "/v1/backup",
		Summary:     "Give a backup as a tar stream, the manifest last; one without it was cut",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: body}}},
		Responses: map[string]*huma.Response{"200": {Description: "the backup",
			Content: map[string]*huma.MediaType{archiveType: {Schema: bytesOf}}}}})
}

// late is an answer that writes its header with its first byte.
type late struct {
	w     http.ResponseWriter
	begun bool
}

// Write implements io.Writer.
func (l *late) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-tar")
	}
	return l.w.Write(b)
}

// CopyState is the answer of GET /v1/copy.
type CopyState struct {
	Copy bool `json:"copy" doc:"the data is a copy, in which nothing runs or changes until it is released"`
}

func (s *API) registerCopy(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: copyID, Method: http.MethodGet, Path: "/v1/copy",
		Summary: "Say whether the data is a restored copy, in which nothing runs or changes"},
		func(context.Context, *struct{}) (*struct{ Body CopyState }, error) {
			return &struct{ Body CopyState }{CopyState{s.h.IsCopy()}}, nil
		})
	huma.Register(api, huma.Operation{OperationID: releaseID, Method: http.MethodPost, Path: "/v1/copy:release",
		Summary: "Let a restored copy run: the server of the original must have ended", DefaultStatus: http.StatusOK},
		func(ctx context.Context, _ *struct{}) (*struct{ Body CopyState }, error) {
			if err := s.h.ReleaseCopy(ctx); err != nil {
				return nil, failed(err)
			}
			return &struct{ Body CopyState }{CopyState{s.h.IsCopy()}}, nil
		})
}

// The operations on the server as a whole.
const (
	copyID    = "copy"
	releaseID = "release-copy"
)
