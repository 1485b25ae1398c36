package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
)

// json prints a value as indented JSON.
func (g *globals) json(v any) error {
	var b bytes.Buffer
	if err := httpapi.Encode(&b, v, "  "); err != nil {
		return err
	}
	_, err := g.io.out.Write(printableJSON(b.Bytes()))
	return err
}

// table prints rows in columns under a header. On a terminal, each row fits a line, and statuses are coloured.
func (g *globals) table(header string, rows [][]string) error {
	for _, r := range rows {
		for i := range r {
			r[i] = oneLine(r[i])
		}
	}
	all := append([][]string{strings.Split(strings.ToUpper(header), "\t")}, rows...)
	if terminal(g.io.out) {
		_, err := io.WriteString(g.io.out, fitted(all, columns(g.io.out), coloured()))
		return err
	}
	w := tabwriter.NewWriter(g.io.out, 0, 4, 2, ' ', 0)
	for _, r := range all {
		_, _ = fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// inUTC is the value of --utc. A process has one command line.
var inUTC atomic.Bool

// zoned converts an instant to the zone for display: the local one, or UTC.
func zoned(t time.Time) time.Time {
	if inUTC.Load() {
		return t.UTC()
	}
	return t.Local()
}

// instant formats an instant with its zone, "-" if it is zero.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return zoned(t).Format("2006-01-02T15:04:05.000Z07:00")
}

// whole returns a value as one line of JSON.
func whole(v any) string {
	if v == nil {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// short is like whole, but cut to part of a line.
func short(v any) string {
	return cut(whole(v))
}

// cut shortens a text to part of a line.
func cut(s string) string {
	const width = 80
	if text := []rune(s); len(text) > width {
		return string(text[:width-1]) + "…"
	}
	return s
}

func (g *globals) showRuns(runs []host.Run) error {
	switch g.Format {
	case "json":
		return g.json(runs)
	case "ids":
		for _, r := range runs {
			_, _ = fmt.Fprintln(g.io.out, r.ID)
		}
		return nil
	}
	rows := make([][]string, len(runs))
	for i, r := range runs {
		rows[i] = []string{r.ID, fmt.Sprintf("%s@%d", r.Workflow, r.Version), r.Status.String(), instant(r.Created),
			instant(r.Wake), cmp.Or(r.Reason, r.Error)}
	}
	if err := g.table("run\tworkflow\tstatus\tcreated\twakes\treason", rows); err != nil {
		return err
	}
	if i := slices.IndexFunc(runs, func(r host.Run) bool { return r.Help != "" }); i >= 0 {
		_, _ = fmt.Fprintf(g.io.err, "of %s: %s\n", oneLine(runs[i].ID), printable(runs[i].Help))
	}
	return nil
}

func (g *globals) showRun(r host.Run) error {
	switch g.Format {
	case "json":
		return g.json(r)
	case "ids":
		_, _ = fmt.Fprintln(g.io.out, r.ID)
		return nil
	}
	status := strings.TrimRight(r.Status.String()+" "+oneLine(r.Reason), " ")
	_, err := fmt.Fprintf(g.io.out, "run       %s\nworkflow  %s@%d\nmodule    %s\nstatus    %s\n"+
		"created   %s\nstarted   %s\nwakes     %s\nended     %s\nentries   %d\n%s",
		r.ID, r.Workflow, r.Version, r.Module, status, instant(r.Created), instant(r.Started),
		instant(r.Wake), instant(r.Ended), r.Entries, more(r))
	return err
}

// more returns the lines that only some runs have.
func more(r host.Run) (text string) {
	if r.QueuePosition != nil {
		text += placeLine(r.QueuePosition)
	}
	if r.Error != "" {
		text += printable(fmt.Sprintf("error     %s\n", strings.ReplaceAll(r.Error, "\n", "\n          ")))
	}
	text += failureLines(r.Failure)
	if r.Iteration > 0 {
		text += fmt.Sprintf("iteration %d", r.Iteration)
		if r.FirstIteration > 0 {
			text += fmt.Sprintf(", journals are kept from %d on", r.FirstIteration)
		}
		text += "\n"
	}
	if len(r.Memo) > 0 {
		text += printable(fmt.Sprintf("memo      %s\n", r.Memo))
	}
	if r.Parent != "" {
		text += fmt.Sprintf("parent    %s\n", r.Parent)
	}
	if r.Schedule != "" {
		text += fmt.Sprintf("schedule  %s for %s\n", r.Schedule, instant(r.Nominal))
	}
	if r.Aside != "" {
		text += fmt.Sprintf("aside     %s\n", r.Aside)
	}
	if !r.Imported.IsZero() {
		text += fmt.Sprintf("imported  %s\n", instant(r.Imported))
	}
	if r.TraceID != "" {
		text += fmt.Sprintf("trace     %s\n", r.TraceID)
	}
	if r.Output > 0 {
		text += fmt.Sprintf("output    %d\n", r.Output)
	}
	if r.Help != "" {
		text += printable(fmt.Sprintf("help      %s\n", r.Help))
	}
	lines := []string{text}
	for _, k := range slices.Sorted(maps.Keys(r.Attributes)) {
		lines = append(lines, oneLine(fmt.Sprintf("attribute %s=%s", k, r.Attributes[k]))+"\n")
	}
	return strings.Join(lines, "")
}

// failureLines returns the details of a failure besides its message.
func failureLines(f *abi.Error) (text string) {
	if f == nil {
		return ""
	}
	add := func(has bool, name string, v any) {
		if has {
			text += oneLine(fmt.Sprintf("%-9s %v", name, v)) + "\n"
		}
	}
	add(f.Code != 0, "code", f.Code)
	add(f.Name != "", "step", f.Name)
	add(f.Attempts > 0, "attempts", f.Attempts)
	add(f.Kind != "", "kind", f.Kind)
	add(f.Type != "", "type", f.Type) // the type of the error in the failing code
	add(f.Details != nil, "details", short(f.Details))
	return text
}

// entryLine returns an entry as one line with its whole payload, which a pipe may search.
func entryLine(e httpapi.Entry) string {
	line := fmt.Sprintf("%5d  %s  %-15s %s", e.Seq, instant(e.Time), e.Kind, details(e, whole))
	return oneLine(strings.TrimRight(line, " "))
}

// details returns the other fields of an entry. payload formats payloads.
func details(e httpapi.Entry, payload func(any) string) string {
	var parts []string
	add := func(has bool, format string, v any) {
		if has {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(e.Name != "", "%q", e.Name)
	add(e.Handle != 0, "#%d", e.Handle)
	add(e.Target != "", "by %s", e.Target)
	add(e.Attempt > 0, "attempt %d", e.Attempt)
	if e.Due != nil {
		add(true, "until %s", instant(*e.Due))
	}
	if e.Kind == store.KindMigrated.String() {
		var o struct{ From, To uint32 }
		add(json.Unmarshal(e.Options, &o) == nil, "from %s", fmt.Sprintf("%d to %d", o.From, o.To))
	}
	add(e.Refused != "", "refused %s", e.Refused)
	add(e.Skipped, "%s", "skipped")
	for _, v := range []any{readable(e.Base64, "input", e.Input), readable(e.Base64, "data", e.Data)} {
		text := payload(v)
		add(text != "", "%s", text)
	}
	return strings.Join(parts, " ")
}

// readable returns a payload for display, nil if there is none: as a text if it is UTF-8 that is not JSON. inBase64 names the
// payloads in base64.
func readable(inBase64 []string, name string, v json.RawMessage) any {
	var b []byte
	switch {
	case len(v) == 0:
		return nil
	case slices.Contains(inBase64, name) && json.Unmarshal(v, &b) == nil && utf8.Valid(b):
		return string(b)
	}
	return v
}

func duration(d time.Duration) string {
	return abi.FormatDuration(max(d.Milliseconds(), 0))
}
