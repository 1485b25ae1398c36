package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// auditPattern is the endpoint that returns the audit log.
const auditPattern = "GET /v1/audit"

type auditInput struct {
	From    string `query:"from" doc:"RFC 3339: only what was answered at this instant or after it"`
	Refused bool   `query:"refused" doc:"requests that were refused, in place of those that may have changed something"`
}

func (s *API) registerAudit(api huma.API) {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Record](), true, "")
	huma.Register(api, huma.Operation{OperationID: "audit", Method: http.MethodGet, Path: "/v1/audit",
		Responses: map[string]*huma.Response{"200": {Description: "JSON Lines: the records, the oldest first",
			Content: map[string]*huma.MediaType{jsonLines: {Schema: schema}}}},
		Summary: "Read the audit log: who has changed what in all namespaces, as far as its files go back"}, s.auditLog)
}

func (s *API) auditLog(_ context.Context, in *auditInput) (*huma.StreamResponse, error) {
	if s.access.Records == nil {
		return nil, problem(http.StatusNotFound, "not_found", "this server keeps no audit log")
	}
	var from time.Time
	if in.From != "" {
		var err error
		from, err = time.Parse(time.RFC3339, in.From)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "from must be an instant as 2026-01-31T12:00:00Z, got %q", in.From)
		}
	}
	log, err := s.access.Records(in.Refused)
	if err != nil {
		return nil, failed(err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer func() { _ = log.Close() }() // only read
		c.SetHeader("Content-Type", jsonLines)
		c.SetHeader("Cache-Control", "no-store")
		if err := copyRecords(c.BodyWriter(), log, from); err != nil {
			panic(http.ErrAbortHandler) // only an abort tells the receiver
		}
	}}, nil
}

// maxRecordBytes is more than a record takes.
const maxRecordBytes = 64 << 10

// copyRecords writes the records from an instant on. It skips invalid lines: a line that a crash has cut, or any
// number of zeros that a power failure has left.
func copyRecords(to io.Writer, log io.Reader, from time.Time) error {
	w, lines := bufio.NewWriterSize(to, streamBytes), bufio.NewReaderSize(log, maxRecordBytes)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = true
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var r Record
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if !long && json.Unmarshal(line, &r) == nil && !r.Time.Before(from) {
			if err := Encode(w, &r, ""); err != nil { // files have instants with the machine's precision
				return err
			}
		}
		long = false
		if err != nil {
			return w.Flush()
		}
	}
}
