package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Version is a version of a workflow.
type Version struct {
	Workflow string    `json:"workflow"`
	Number   uint32    `json:"version"`
	Digest   string    `json:"module"` // SHA-256 of the module in hexadecimal
	Steps    []string  `json:"allow_step,omitempty"`
	HTTP     []string  `json:"allow_http,omitempty"`
	Secrets  []string  `json:"allow_secret,omitempty"`
	Created  time.Time `json:"created"`
	Imported bool      `json:"imported,omitempty"` // created by an import: a start must name it explicitly
	New      bool      `json:"new"`                // created by this upload
	Queries  []string  `json:"queries,omitempty"`  // only Workflow has these three
	Signals  []string  `json:"signals,omitempty"`
	Updates  []string  `json:"updates,omitempty"`
	Live     int       `json:"live"` // runs that have not ended; only Workflow returns it
}

// UploadOptions say which workflows get a version and what it may do.
type UploadOptions struct {
	Only        []string // workflows of the module; all if empty
	AllowStep   []string // handlers that it may call
	AllowHTTP   []string // hosts that it may make requests to
	AllowSecret []string // NAME=host,Header: secrets that it may send to that host
}

// Upload stores a module as the next version of its workflows, or of workflow if the module lists none. If the module exists
// with the same grants, no version is created. The version is durable and compiled on return. Upload returns ErrRejected
// with the reason if the module cannot be a workflow.
func (c *Client) Upload(ctx context.Context, workflow string, wasm []byte, o UploadOptions) ([]Version, error) {
	if workflow == "" {
		workflow = "-"
	}
	v := url.Values{"workflow": o.Only, "allow_step": o.AllowStep, "allow_http": o.AllowHTTP, "allow_secret": o.AllowSecret}
	l, err := send[Page[Version]](ctx, c, Request{Method: http.MethodPut, Path: workflowPath(workflow, "/versions"), Query: v,
		Header: ofModule(), Body: wasm, Repeatable: true}, nil)
	return l.Items, err
}

func ofModule() http.Header { return http.Header{"Content-Type": {"application/wasm"}} }

// List returns the versions of all workflows.
func (s Workflows) List(ctx context.Context) ([]Version, error) {
	return items[Version](ctx, s.c, "/v1/workflows", nil)
}

// Versions returns the versions of a workflow, with the numbers of live runs and the names of queries, signals and updates.
func (s Workflows) Versions(ctx context.Context, name string) ([]Version, error) {
	return items[Version](ctx, s.c, workflowPath(name, ""), nil)
}

// DeleteVersion deletes a version. It returns ErrConflict while a run has it.
func (s Workflows) DeleteVersion(ctx context.Context, workflow string, version uint32) error {
	return s.c.call(ctx, Request{Method: http.MethodDelete,
		Path: workflowPath(workflow, "/versions/"+strconv.FormatUint(uint64(version), 10))}, nil)
}

// Schemas are the JSON Schemas that a workflow provides.
type Schemas struct {
	Input   json.RawMessage            `json:"input,omitempty"`
	Result  json.RawMessage            `json:"result,omitempty"`
	Signals map[string]json.RawMessage `json:"signals,omitempty"`
	Updates map[string]json.RawMessage `json:"updates,omitempty"`
}

// Schemas returns the schemas of a version of a workflow, or of the newest version for 0.
func (s Workflows) Schemas(ctx context.Context, workflow string, version uint32) (Schemas, error) {
	v := url.Values{}
	if version != 0 {
		v.Set("version", strconv.FormatUint(uint64(version), 10))
	}
	return get[Schemas](ctx, s.c, workflowPath(workflow, "/schemas"), v)
}

func workflowPath(name, rest string) string { return "/v1/workflows/" + Segment(name) + rest }

// RunCheck reports whether a run is compatible with a module.
type RunCheck struct {
	RunID     string   `json:"run"`
	Version   uint32   `json:"version,omitempty"`
	Status    Status   `json:"status,omitempty"`
	Iteration uint32   `json:"iteration,omitempty"`
	Entries   uint64   `json:"entries"`
	Outcome   string   `json:"outcome"`            // compatible, diverges, not_checked, migrated or unchanged
	Entry     *uint64  `json:"entry,omitempty"`    // seq where it diverges
	Journal   string   `json:"journal,omitempty"`  // what the journal has there
	Workflow  string   `json:"workflow,omitempty"` // what the workflow did there
	Reason    string   `json:"reason,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// CheckSummary counts the outcomes of the checked runs.
type CheckSummary struct {
	Workflow   string `json:"workflow"`
	Version    uint32 `json:"version,omitempty"` // version that runs were migrated to
	Module     string `json:"module"`
	Runs       int64  `json:"runs"`
	Compatible int64  `json:"compatible"`
	Diverging  int64  `json:"diverging"`
	NotChecked int64  `json:"not_checked"`
	Migrated   int64  `json:"migrated,omitempty"`
	Unchanged  int64  `json:"unchanged,omitempty"`
}

// Migration selects runs to migrate to another version.
type Migration struct {
	To       uint32   `json:"to"`
	From     uint32   `json:"from,omitempty"`    // only runs of this version
	Runs     []string `json:"runs,omitempty"`    // only these
	DryRun   bool     `json:"dry_run,omitempty"` // change nothing, only check the runs
	CPU      string   `json:"cpu,omitempty"`     // duration text: limit of the replay of one run; 10s for ""
	Parallel int      `json:"parallel,omitempty"`
}

// Check replays the live runs of a workflow against a module that is not stored, and changes nothing. each, unless nil, is
// called for every run; an error from it ends the check.
func (s Workflows) Check(ctx context.Context, workflow string, wasm []byte, each func(RunCheck) error) (CheckSummary, error) {
	if workflow == "" {
		workflow = "-"
	}
	return s.c.reports(ctx, Request{Method: http.MethodPost, Path: workflowPath(workflow, "/check"), Header: ofModule(), Body: wasm,
		Repeatable: true}, each)
}

// Migrate moves live runs to another version of their workflow if they are compatible with it. each is as in Check.
func (s Workflows) Migrate(ctx context.Context, workflow string, m Migration, each func(RunCheck) error) (CheckSummary, error) {
	b, err := encode(m)
	if err != nil {
		return CheckSummary{}, err
	}
	return s.c.reports(ctx, Request{Method: http.MethodPost, Path: workflowPath(workflow, "/migrate"), Body: b}, each)
}

// reports reads reports of runs as JSON Lines, with a summary at the end.
func (c *Client) reports(ctx context.Context, r Request, each func(RunCheck) error) (CheckSummary, error) {
	res, err := c.Do(ctx, r)
	if err != nil {
		return CheckSummary{}, err
	}
	defer func() { _ = res.Body.Close() }() // the body has been read
	for d := json.NewDecoder(bufio.NewReader(res.Body)); ; {
		var line struct {
			Run     *RunCheck     `json:"run"`
			Summary *CheckSummary `json:"summary"`
		}
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return CheckSummary{}, &lostError{fmt.Errorf("the reports broke off: %w", io.ErrUnexpectedEOF), c.base}
		case err != nil:
			return CheckSummary{}, &lostError{err, c.base}
		case line.Summary != nil:
			return *line.Summary, nil
		case line.Run != nil && each != nil:
			if err := each(*line.Run); err != nil {
				return CheckSummary{}, err
			}
		}
	}
}
