package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// workflowLine is a workflow in the list.
type workflowLine struct {
	Name   string
	Latest host.Version
	Count  int
	Runs   []counted // live and failed runs
	Live   int64
}

// workflows lists the workflows with their latest version and their runs.
func (v *visit) workflows() error {
	var list []workflowLine
	for w, err := range v.ns.Workflows().Versions(v.r.Context(), "") {
		if errors.Is(err, host.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		n := len(list)
		if n == 0 || list[n-1].Name != w.Workflow {
			list = append(list, workflowLine{Name: w.Workflow})
			n++
		}
		list[n-1].Latest = w
		list[n-1].Count++
	}
	for i := range list {
		counts, err := v.ns.Counts(v.r.Context(), list[i].Name)
		if err != nil {
			return err
		}
		for _, s := range shownStatuses {
			if counts[s] == 0 {
				continue
			}
			if !s.Terminal() {
				list[i].Live += counts[s]
			}
			list[i].Runs = append(list[i].Runs, counted{s.String(), counts[s]})
		}
	}
	return v.write(http.StatusOK, "workflows", "Workflows", list)
}

// workflowData is the page of a workflow.
type workflowData struct {
	Name     string
	Versions []host.Version // newest first
	Counts   []counted
	Schemas  []*payload
	Limits   *host.WorkflowLimitInfo
	Uploaded bool
}

// Elsewhere returns the number of live runs of other versions.
func (d *workflowData) Elsewhere(x host.Version) (n int) {
	for _, other := range d.Versions {
		if other.Number != x.Number {
			n += other.Live
		}
	}
	return n
}

// workflow shows a workflow: its versions with live runs and grants, and its schemas.
func (v *visit) workflow() error {
	ctx, name := v.r.Context(), v.r.PathValue("workflow")
	versions, err := v.ns.Workflows().LiveVersions(ctx, name)
	if err != nil {
		return err
	}
	slices.Reverse(versions)
	d := &workflowData{Name: name, Versions: versions}
	counts, err := v.ns.Counts(ctx, name)
	if err != nil {
		return err
	}
	for _, s := range shownStatuses {
		if counts[s] > 0 {
			d.Counts = append(d.Counts, counted{s.String(), counts[s]})
		}
	}
	schemas, err := v.ns.Workflows().Schemas(ctx, name, 0)
	if err != nil {
		return err
	}
	for _, p := range []*payload{show("Input", "", schemas.Input), show("Result", "", schemas.Result)} {
		if p != nil {
			d.Schemas = append(d.Schemas, p)
		}
	}
	for what, set := range map[string]map[string]json.RawMessage{"Signal": schemas.Signals, "Update": schemas.Updates} {
		for of, text := range set {
			if p := show(what+" "+of, "", text); p != nil {
				d.Schemas = append(d.Schemas, p)
			}
		}
	}
	slices.SortStableFunc(d.Schemas, func(a, b *payload) int { return strings.Compare(a.Label, b.Label) })
	if l, err := v.ns.WorkflowLimits().Get(ctx, name); err == nil {
		d.Limits = &l
	}
	return v.write(http.StatusOK, "workflow", name, d)
}

// startData is the form of a start.
type startData struct {
	Workflow string
	Fields   []field // of the input; none if its schema has no fields for a form
	Raw      string  // the input as JSON
	AsJSON   bool    // show the input as JSON
	ID, In   string
	Attrs    string
	Key      string // idempotency key: sending the form twice starts one run
	Problem  string
	Faults   []pair
}

// startForm shows the form of a start.
func (v *visit) startForm() error {
	name := v.r.PathValue("workflow")
	d := &startData{Workflow: name, AsJSON: v.r.URL.Query().Get("as") == "json"}
	return v.showStart(http.StatusOK, d)
}

func (v *visit) showStart(status int, d *startData) error {
	schemas, err := v.ns.Workflows().Schemas(v.r.Context(), d.Workflow, 0)
	if err != nil {
		return err
	}
	if d.Fields == nil {
		d.Fields = fieldsOf(schemas.Input)
	}
	return v.write(status, "start", "Start "+d.Workflow, d)
}

// start starts a run and shows it. If it fails, it shows the form again with the error.
func (v *visit) start() error {
	d := &startData{Workflow: v.r.PathValue("workflow"), Raw: v.form.Get("input"), AsJSON: v.form.Get("as") == "json",
		ID: strings.TrimSpace(v.form.Get("id")), In: strings.TrimSpace(v.form.Get("in")), Attrs: v.form.Get("attributes")}
	schemas, err := v.ns.Workflows().Schemas(v.r.Context(), d.Workflow, 0)
	if err != nil {
		return err
	}
	input := []byte(strings.TrimSpace(d.Raw))
	if !d.AsJSON {
		d.Fields = fieldsOf(schemas.Input)
		if len(d.Fields) > 0 {
			input, err = inputOf(d.Fields, v.form)
			d.Raw = string(input)
		}
	}
	if err == nil && len(input) > 0 && !abi.IsJSON(input) {
		err = say(http.StatusUnprocessableEntity, "The input must be JSON (a text stands in quotes), got %.80q", input)
	}
	opts, bad := startOptions(d)
	if err == nil {
		err = bad
	}
	var r host.Run
	if err == nil {
		r, err = v.ns.StartRaw(v.r.Context(), d.Workflow, input, opts...)
	}
	if err == nil {
		v.changed = true
		v.redirect(v.Run(r.ID))
		return nil
	}
	status := statusOf(err)
	if status >= http.StatusInternalServerError {
		return err
	}
	d.Problem = upper(err.Error()) + "."
	if faults, ok := errors.AsType[*host.SchemaError](err); ok {
		status, d.Problem = http.StatusUnprocessableEntity, "The input does not fit to the workflow's schema."
		for _, f := range faults.Faults {
			d.Faults = append(d.Faults, pair{f.Pointer, f.Message})
			for i := range d.Fields {
				if f.Pointer == "/"+d.Fields[i].Name || strings.HasPrefix(f.Pointer, "/"+d.Fields[i].Name+"/") {
					d.Fields[i].Problem = f.Message
				}
			}
		}
	}
	return v.showStart(status, d)
}

// startOptions reads the options of a start from the form.
func startOptions(d *startData) (opts []host.StartOption, err error) {
	if d.ID != "" {
		opts = append(opts, host.WithRunID(d.ID))
	}
	if d.In != "" {
		if _, err := abi.ParseTimeout(d.In); err != nil {
			return nil, say(http.StatusBadRequest, "The delay must be a duration such as 1h30m, got %.40q", d.In)
		}
		opts = append(opts, host.WithStartInText(d.In))
	}
	attributes := map[string]string{}
	for text := range strings.Lines(d.Attrs) {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		k, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, say(http.StatusBadRequest, "An attribute is a line KEY=VALUE, got %.80q", text)
		}
		attributes[strings.TrimSpace(k)] = strings.TrimSpace(value)
	}
	if len(attributes) > 0 {
		opts = append(opts, host.WithAttributes(attributes))
	}
	return opts, nil
}

// uploadData is the form of an upload, and its result.
type uploadData struct {
	Workflow string
	Steps    string
	HTTP     string
	Problem  string
	Name     string // of the file
	Size     string
	Versions []uploaded
}

// uploaded is a version that an upload has created, or found, with its description.
type uploaded struct {
	host.Version
	Typed     bool // its input has a schema
	Elsewhere int  // live runs of other versions
}

func (v *visit) uploadForm() error {
	return v.write(http.StatusOK, "upload", "Upload", &uploadData{Workflow: v.r.URL.Query().Get("workflow")})
}

const (
	// uploadTime is how long the body of an upload may take: 32 MiB at 64 KiB per second.
	uploadTime = 9 * time.Minute
	// maxField bounds a field of the upload's form.
	maxField = 16 << 10
)

// upload creates versions of the workflows of a module, and shows them, or why the module was refused.
func (v *visit) upload() error {
	// A file takes longer than other bodies. Without a connection, as in tests, there is no deadline.
	_ = http.NewResponseController(v.w).SetReadDeadline(clock.System().Now().Add(uploadTime))
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, abi.MaxModuleBytes+maxForm)
	d := &uploadData{}
	wasm, err := v.readUpload(d)
	if err != nil {
		return err
	}
	grants := d.Steps + d.HTTP
	var opts []host.UploadOption
	if d.Steps != "" {
		opts = append(opts, host.AllowStep(strings.Fields(d.Steps)...))
	}
	if d.HTTP != "" {
		opts = append(opts, host.AllowHTTP(strings.Fields(d.HTTP)...))
	}
	switch {
	case len(wasm) == 0:
		err = say(http.StatusBadRequest, "Choose a file: a module, as `wfhost build` writes it")
	case grants != "" && !v.caller.Allows(host.ScopeAdmin, v.namespace):
		err = say(http.StatusForbidden, "Granting steps and requests needs the scope admin: leave the grants empty, and the "+
			"version has those of the version before")
	case d.HTTP != "" && v.caller.Namespace != "":
		err = say(http.StatusForbidden, "Granting requests here needs a token for all namespaces; "+
			"`wfhost upload` grants names with others")
	default:
		err = v.uploadAll(d, wasm, opts)
	}
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
		if status >= http.StatusInternalServerError {
			return err
		}
		d.Problem = upper(err.Error()) + "."
	}
	v.changed = err == nil
	return v.write(status, "upload", "Upload", d)
}

// uploadAll uploads a module, and collects the descriptions of its versions.
func (v *visit) uploadAll(d *uploadData, wasm []byte, opts []host.UploadOption) error {
	versions, err := v.ns.UploadAll(v.r.Context(), d.Workflow, wasm, opts...)
	for _, made := range versions {
		u := uploaded{Version: made}
		all, err := v.ns.Workflows().LiveVersions(v.r.Context(), made.Workflow)
		if err != nil {
			return err
		}
		for _, x := range all {
			if x.Number == made.Number {
				u.Version = x
			} else {
				u.Elsewhere += x.Live
			}
		}
		u.New = made.New
		if schemas, err := v.ns.Workflows().Schemas(v.r.Context(), made.Workflow, made.Number); err == nil {
			u.Typed = len(schemas.Input) > 0
		}
		d.Versions = append(d.Versions, u)
	}
	return err
}

// readUpload reads the form. The token comes before the file, so that a form of another site is refused before its
// file is read.
func (v *visit) readUpload(d *uploadData) (wasm []byte, err error) {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return nil, unread(err)
	}
	checked := false
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) && checked {
			return wasm, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, v.checkToken("")
		}
		limit := int64(maxField)
		if err == nil && part.FormName() == "module" {
			limit = abi.MaxModuleBytes
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(part, limit+1))
		}
		if _, large := errors.AsType[*http.MaxBytesError](err); large || int64(len(b)) > limit {
			return nil, say(http.StatusRequestEntityTooLarge, "A module has at most %d bytes.", abi.MaxModuleBytes)
		}
		if err != nil {
			return nil, unread(err)
		}
		text := string(bytes.TrimSpace(b))
		switch part.FormName() {
		case "csrf":
			if err := v.checkToken(text); err != nil {
				return nil, err
			}
			checked = true
		case "workflow":
			d.Workflow = text
		case "steps":
			d.Steps = text
		case "http":
			d.HTTP = text
		case "module":
			if !checked {
				return nil, v.checkToken("")
			}
			wasm, d.Name, d.Size = b, line(part.FileName(), 80), size(int64(len(b)))
		}
	}
}

// number reads a number of a query, 0 if it is missing or invalid.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
