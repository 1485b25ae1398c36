package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Call is a call of a workflow with its outcome, in the form that both a journal and an in-memory test environment
// have.
type Call struct {
	Run       string `json:"run"`
	Iteration int    `json:"iteration"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Target    string `json:"target"`
	Input     string `json:"input"`
	Refused   bool   `json:"refused"`
	AtMs      int64  `json:"at"` // since the run's start
	EndedMs   int64  `json:"ended"`
	Attempts  int    `json:"attempts"`
	Code      string `json:"code"` // empty while it waits
	Message   string `json:"message"`
	Result    string `json:"result"`
	Child     string `json:"runId"` // the id of a child
}

// Settled returns the calls of the first run of a list, and of its children whose end it was told. How far its other
// children have come depends on the machine. The calls of a run come before those of its children.
func Settled(calls []Call) (list []Call) {
	if len(calls) == 0 {
		return nil
	}
	runs := map[string][]Call{}
	for _, c := range calls {
		runs[c.Run] = append(runs[c.Run], c)
	}
	var add func(run string)
	add = func(run string) {
		list = append(list, runs[run]...)
		started := slices.Clone(runs[run])
		slices.SortStableFunc(started, func(a, b Call) int {
			return cmp.Or(cmp.Compare(a.Iteration, b.Iteration), cmp.Compare(a.Name, b.Name))
		})
		for _, c := range started {
			if c.Child != "" && c.Code != "" && c.Code != "WITHDRAWN" && c.Code != "CONFLICT" {
				add(c.Child)
			}
		}
	}
	add(calls[0].Run)
	return list
}

// ids matches the run id in the error of a child, which the host derives from the number of the child's call.
var ids = regexp.MustCompile(`\(run [^)]*\)`)

// String formats a call as one line.
func (c Call) String() string {
	text := fmt.Sprintf("iteration %d +%d %s %q", c.Iteration, c.AtMs, c.Kind, c.Name)
	if c.Target != "" {
		text += fmt.Sprintf(" of %q", c.Target)
	}
	if c.Input != "" {
		text += fmt.Sprintf(" with %q", c.Input)
	}
	if c.Refused {
		text += " refused"
	} else if c.Code != "" {
		text += fmt.Sprintf(" until +%d", c.EndedMs)
	}
	text += fmt.Sprintf(": %s", firstOf(c.Code, "open"))
	if c.Attempts > 0 {
		text += fmt.Sprintf(" after %d", c.Attempts)
	}
	if c.Message != "" {
		text += " " + strconv.Quote(ids.ReplaceAllString(c.Message, "(run …)"))
	}
	if c.Result != "" {
		text += " " + strconv.Quote(c.Result)
	}
	return text
}

// Lines formats calls, one per line.
func Lines(calls []Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// Sort sorts the calls of an iteration at the same instant by name and kind.
func Sort(calls []Call) {
	together := func(a, b *Call) bool { return a.Run == b.Run && a.Iteration == b.Iteration && a.AtMs == b.AtMs }
	for i := 0; i < len(calls); {
		n := i + 1
		for n < len(calls) && together(&calls[n], &calls[i]) {
			n++
		}
		slices.SortStableFunc(calls[i:n], func(a, b Call) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
		})
		i = n
	}
}

// Calls returns the calls of the runs in a journal in the form of Outcome.Journal and Story.Journal. The calls of a
// run come before those of its children.
func Calls(journal string) (list []Call, err error) {
	var r reader
	for line := range strings.Lines(journal) {
		if err := r.read(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
	}
	return r.calls, nil
}

// callKinds has the kinds of lines that become a Call.
var callKinds = []string{"sleep", "step", "body", "signal_wait", "signal_send", "hook", "child", "emit", "set_attribute",
	"version", "cancel_policy", "continue_as_new", "update_reply"}

// reader reads the lines of a journal.
type reader struct {
	run       string
	iteration int
	began     int64 // start of the iteration, since the run's start
	newest    int64
	calls     []Call
	handles   map[string]int  // indexes of their calls in calls, by handle
	signals   map[string]*row // received signals by their numbers
}

// row is a line of a journal.
type row struct {
	number, kind string
	at           int64
	fields       map[string]string
}

func (r *reader) read(text string) error {
	if rest, ok := strings.CutPrefix(text, "run "); ok {
		run, n, _ := strings.Cut(rest, " iteration ")
		if r.run != run {
			r.began, r.newest = 0, 0
		}
		r.began += r.newest
		r.run, r.handles, r.signals, r.newest = run, map[string]int{}, map[string]*row{}, 0
		var err error
		r.iteration, err = strconv.Atoi(n)
		return err
	}
	l, err := parseLine(text)
	if err != nil {
		return err
	}
	r.newest = l.at
	switch {
	case slices.Contains(callKinds, l.kind):
		r.call(l)
	case l.kind == "withdraw" && l.fields["code"] == "":
		c := r.of(l)
		c.Code, c.EndedMs = "WITHDRAWN", r.began+l.at
	case l.kind == "signal_accepted":
		r.signals[l.number] = l
	case l.fields["handle"] != "" && !slices.Contains([]string{"attempt_started", "attempt_failed", "withdraw"}, l.kind):
		return r.outcome(l)
	}
	return nil
}

// of returns the call with a line's handle.
func (r *reader) of(l *row) *Call { return &r.calls[r.handles[l.fields["handle"]]] }

func (r *reader) call(l *row) {
	c := Call{Run: r.run, Iteration: r.iteration, Kind: l.kind, Name: l.fields["name"], Target: l.fields["target"],
		Input: l.fields["input"], AtMs: r.began + l.at}
	c.EndedMs = c.AtMs
	if l.kind == "child" && l.fields["refused"] == "" {
		c.Child = l.fields["data"]
	}
	switch handle := l.fields["handle"]; {
	case l.fields["refused"] != "":
		c.Refused, c.Code, c.Message = true, l.fields["refused"], messageOf(l.fields["data"])
	case l.kind == "update_reply":
		c.Name, c.Code = r.of(l).Name, "OK"
		if l.fields["code"] != "" {
			c.Code, c.Message = "FAILED", messageOf(c.Input)
		}
	case handle == "":
		c.Code = "OK"
		switch l.kind {
		case "emit", "version", "cancel_policy":
			c.Result = firstOf(l.fields["code"], "0")
		}
	default:
		r.handles[handle] = len(r.calls)
	}
	r.calls = append(r.calls, c)
}

// outcome reads the outcome of a call with a handle.
func (r *reader) outcome(l *row) error {
	c, data := r.of(l), l.fields["data"]
	c.Code, c.EndedMs, c.Result = "OK", r.began+l.at, data
	switch l.kind {
	case "step_result":
		c.Attempts, _ = strconv.Atoi(l.fields["attempt"])
	case "signal":
		c.Result = r.signals[l.fields["ref"]].fields["data"]
	case "signal_timeout":
		c.Code, c.Message, c.Result = "TIMEOUT", "no signal came in time", ""
	case "hook_ready":
		if c.Target == "" {
			c.Result = madeToken
		}
	}
	if l.kind != "step_failure" && l.kind != "child_failure" && l.fields["code"] == "" {
		return nil
	}
	var e struct {
		Code, Message string
		Attempts      int
	}
	err := json.Unmarshal([]byte(data), &e)
	c.Code, c.Message, c.Attempts, c.Result = e.Code, e.Message, e.Attempts, ""
	return err
}

func messageOf(data string) string {
	var e struct{ Message string }
	_ = json.Unmarshal([]byte(data), &e) // text has none
	return e.Message
}

// parseLine parses a line that line has formatted.
func parseLine(text string) (*row, error) {
	l := &row{fields: map[string]string{}}
	if _, err := fmt.Sscanf(text, "%s +%d %s", &l.number, &l.at, &l.kind); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(text, " "+l.kind)
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, fmt.Errorf("no field: %s", rest)
		}
		switch quoted, err := strconv.QuotedPrefix(value); {
		case err == nil:
			l.fields[name], _ = strconv.Unquote(quoted)
			rest = value[len(quoted):]
		case strings.HasPrefix(value, "{"):
			d := json.NewDecoder(bytes.NewReader([]byte(value)))
			var object json.RawMessage
			if err := d.Decode(&object); err != nil {
				return nil, err
			}
			l.fields[name], rest = string(object), value[len(object):]
		case strings.HasPrefix(value, madeToken):
			l.fields[name], rest = madeToken, value[len(madeToken):]
		default:
			l.fields[name], rest, _ = strings.Cut(value, " ")
		}
	}
	return l, nil
}
