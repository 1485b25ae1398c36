package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// verdict says what a run waits for, or why it failed.
type verdict struct {
	Tone     string // its colour: bad, wait, good or calm
	Headline string
	Message  string // the message of the workflow or the host
	Facts    []string
	Waits    []wait
	More     int // number of waits that are not listed
	Log      []logLine
	Child    string // the child whose failure is the run's
}

// wait is a call that a run waits for.
type wait struct {
	Text  string
	Until time.Time // zero if unbounded
	Since time.Time
	Seq   uint64
	Run   string // the awaited run
	Child string // status of the awaited child, with its reason
	Error string // of the newest attempt
}

// maxWaits is how many waits are listed at the head of the page; the timeline has all.
const maxWaits = 6

// judge returns the verdict on a run.
func judge(r *host.Run, t *timeline, now time.Time) *verdict {
	v := &verdict{Tone: "calm"}
	switch r.Status {
	case host.Failed:
		v.failure(r, t)
	case host.Stuck:
		v.Tone, v.Headline, v.Message = "bad", "Stuck: it needs a person.", r.Reason
		if r.Help != "" {
			v.Facts = append(v.Facts, fmt.Sprintf("The code of version %d does something else than the run has done so far. Retry it "+
				"under a version that does the same: the next page says which do. If none does, upload one that is mended.", r.Version))
		} else {
			v.Facts = append(v.Facts, "Retry lets it go on once what is in its way is mended.")
		}
	case host.Completed:
		v.Tone, v.Headline = "good", "Completed after "+humane(r.Ended.Sub(r.Created))+"."
	case host.Cancelled:
		v.Headline = "Cancelled after " + humane(r.Ended.Sub(r.Created)) + "."
	case host.Terminated:
		v.Headline = "Terminated after " + humane(r.Ended.Sub(r.Created)) + "."
	default:
		v.live(r, t, now)
	}
	return v
}

// failure describes why a run has failed: the step, its attempts, and its message.
func (v *verdict) failure(r *host.Run, t *timeline) {
	v.Tone, v.Message = "bad", r.Error
	v.Headline = "Failed after " + humane(r.Ended.Sub(r.Created)) + "."
	if t.End == nil {
		return
	}
	var e abi.Error
	if json.Unmarshal(t.End.Data, &e) != nil {
		return
	}
	if e.Message != "" {
		v.Message = e.Message
	}
	if e.Name == "" {
		return
	}
	v.Headline = fmt.Sprintf("Failed: %q gave up", e.Name)
	for i := len(t.Rows) - 1; i >= 0; i-- {
		r := t.Rows[i]
		if r.Name != e.Name || r.State != failed {
			continue
		}
		if n := r.Failures(); n > 0 {
			v.Headline += " after " + plural(n, "attempt", "attempts")
		}
		if r.Target != "" {
			v.Facts = append(v.Facts, "Handler: "+r.Target+".")
		}
		v.Child = r.Child
		if r.Code != "" {
			v.Facts = append(v.Facts, "Error code: "+r.Code+".")
		}
		break
	}
	v.Headline += "."
}

// live describes what a live run waits for.
func (v *verdict) live(r *host.Run, t *timeline, now time.Time) {
	v.Tone = "wait"
	waits := 0      // except those for updates, which are always open
	listed := false // the reason of the run is the text of a wait
	for _, p := range t.pending() {
		if p.update() == "" {
			waits++
		}
		if len(v.Waits) == maxWaits {
			v.More++
			continue
		}
		w := waitOf(p, now)
		if p.Kind == "step" {
			if text, do := heldBack(p.Name, p.Target, r.Reason); text != "" && w.Until.IsZero() {
				w.Text, listed = text, true
				if do != "" && !slices.Contains(v.Facts, do) {
					v.Facts = append(v.Facts, do)
				}
			}
		}
		v.Waits = append(v.Waits, w)
	}
	switch {
	case r.Status == host.Paused:
		v.Headline = "Paused: nothing happens until it is unpaused."
		if r.Aside != "" {
			v.Headline = fmt.Sprintf("Set aside (%s): nothing happens to it here.", r.Aside)
		}
	case r.QueuePosition != nil:
		v.Headline = fmt.Sprintf("Waits for a slot: place %d of %d.", r.QueuePosition.Position, r.QueuePosition.Same)
		if r.QueuePosition.Limit != "" {
			v.Facts = append(v.Facts, "The limit that holds it back: "+r.QueuePosition.Limit+".")
		}
	case r.Started.IsZero() && r.Wake.After(now):
		v.Headline = "Has not begun: its start is delayed."
		v.Waits = append(v.Waits, wait{Text: "Begins", Until: r.Wake})
	case len(v.Waits) == 1 || waits == 1:
		v.Headline = v.Waits[0].Text
	case len(v.Waits) > 1:
		v.Headline = "Waits for " + plural(len(v.Waits)+v.More, "thing", "things") + "."
	case !r.Wake.IsZero():
		v.Headline = "Sleeps."
		v.Waits = append(v.Waits, wait{Text: "Wakes", Until: r.Wake})
	case r.Status == host.Queued:
		v.Headline = "Queued: it is about to go on."
	default:
		v.Headline = "Running: its workflow computes."
	}
	if r.Reason != "" && why(r.Reason) == r.Reason && !listed { // otherwise it is listed
		v.Facts = append(v.Facts, upper(r.Reason)+".")
	}
	if t.Deadline != 0 {
		v.Facts = append(v.Facts, "It has to have ended by "+abi.TimeOf(t.Deadline).UTC().Format("2006-01-02 15:04:05 UTC")+".")
	}
}

// follow adds the statuses of the children that a run waits for, which often answer why it waits.
func (v *visit) follow(d *verdict) {
	for i := range d.Waits {
		w := &d.Waits[i]
		if w.Run == "" {
			continue
		}
		r, err := v.ns.Get(v.r.Context(), w.Run)
		if err != nil { // not created yet, or deleted
			continue
		}
		w.Child = r.Status.String()
		if why := reason(&r); why != "" {
			w.Child += ": " + why
		}
	}
}

// waitOf describes what an open row waits for.
func waitOf(r *row, now time.Time) wait {
	w := wait{Seq: r.Seq, Since: abi.TimeOf(r.Start), Run: r.Child}
	if r.Due != 0 {
		w.Until = abi.TimeOf(r.Due)
	}
	switch r.Kind {
	case "step":
		n := r.Failures()
		of := ""
		if r.Most > 0 {
			of = fmt.Sprintf(" of %d", r.Most)
		}
		w.Text = fmt.Sprintf("Step %q is being performed: attempt %d%s", r.Name, n+1, of)
		if n > 0 {
			w.Error = r.LastError()
			if last := r.Tries[len(r.Tries)-1]; last.Next != 0 && abi.TimeOf(last.Next).After(now) {
				w.Text = fmt.Sprintf("Step %q has failed %s; attempt %d%s comes next", r.Name, plural(n, "time", "times"), n+1, of)
				w.Until = abi.TimeOf(last.Next)
			}
		}
		if r.Target != "" {
			w.Text += ", by " + r.Target
		}
	case "signal":
		w.Text = fmt.Sprintf("Waits for the signal %q", r.Name)
		if update := r.update(); update != "" {
			w.Text = fmt.Sprintf("Takes the update %q", update)
		}
	case "child":
		w.Text = fmt.Sprintf("Waits for its child %q of %s", r.Name, r.Target)
	case "send":
		w.Text, w.Run = fmt.Sprintf("Sends the signal %q", r.Name), r.Target
	case "hook":
		w.Text = fmt.Sprintf("Claims the token of its hook %q", r.Name)
	default:
		w.Text = "Sleeps"
		if r.Name != "" {
			w.Text = fmt.Sprintf("Sleeps in %q", r.Name)
		}
	}
	return w
}

// heldBack returns why no attempt of a step is made, and what to do about it, from the reason of its run; "" if the
// reason is about another step, or there is none.
func heldBack(step, target, reason string) (text, do string) {
	handler, _ := strings.CutPrefix(target, abi.HandlerPrefix)
	switch {
	case target == "":
	case reason == fmt.Sprintf("handler %q is not registered here", target):
		return fmt.Sprintf("Step %q cannot be performed: handler %s is not registered on this server", step, target),
			fmt.Sprintf("Start the server with --handler %s=URL, or with --worker-handler %s and a worker: the step is then performed.",
				handler, handler)
	case reason == fmt.Sprintf("step %q waits for a worker of handler %q", step, target):
		return fmt.Sprintf("Step %q is not being performed: no worker has taken it from %s yet", step, target),
			fmt.Sprintf("Start a worker that serves %s, or more of them.", handler)
	case strings.HasPrefix(reason, fmt.Sprintf("step %q waits for a slot of handler %q", step, target)):
		return upper(reason), ""
	}
	return "", ""
}

// reason explains the status of a run in a list in one line.
func reason(r *host.Run) string {
	switch {
	case r.Error != "":
		return line(r.Error, 160)
	case r.Reason != "":
		return line(why(r.Reason), 160)
	case r.Aside != "":
		return "set aside: " + r.Aside
	}
	return ""
}

// whats maps the first words of a waiting run's reason to sentences.
var whats = map[string]string{"signal_wait": "waits for the signal %q", "step": "waits for the step %q",
	"body": "waits for the step %q", "child": "waits for its child %q", "hook": "claims the token of its hook %q",
	"signal_send": "sends a signal to %q", "update": "takes the update %q"}

// why formats the reason of a status for people. Most reasons are sentences already; for a waiting run it is a kind
// and a name.
func why(reason string) string {
	kind, name, ok := strings.Cut(reason, " ")
	if form := whats[kind]; ok && form != "" && !strings.HasPrefix(name, `"`) {
		return fmt.Sprintf(form, name)
	}
	return reason
}

func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// logLine is a line of a log.
type logLine struct {
	Index   uint64
	Time    time.Time
	Level   string
	Step    string
	Attempt uint32
	Text    string
}

var levels = [...]string{"debug", "info", "warn", "error"}

func logLineOf(l *host.LogLine) logLine {
	return logLine{l.Index, abi.TimeOf(l.UnixMs), levels[min(max(int(l.Level), 0), len(levels)-1)], l.Step, l.Attempt, l.Text}
}

// logLength finds the number of lines of a log by binary search: their indexes have no gaps.
func (v *visit) logLength(id string) (uint64, error) {
	is := func(index uint64) (bool, error) {
		lines, err := v.ns.Logs(v.r.Context(), id, index, 1)
		return len(lines) > 0, err
	}
	low, high := uint64(0), uint64(1) // lines below low exist
	for {
		ok, err := is(high - 1)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		low, high = high, 2*high
	}
	for low < high {
		middle := (low + high) / 2
		ok, err := is(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// tail returns the last n lines of a log.
func (v *visit) tail(id string, n uint64) (list []logLine, err error) {
	length, err := v.logLength(id)
	if err != nil || length == 0 {
		return nil, err
	}
	lines, err := v.ns.Logs(v.r.Context(), id, length-min(length, n), int(n)) //nolint:gosec // n is a constant
	for i := range lines {
		list = append(list, logLineOf(&lines[i]))
	}
	return list, err
}

// shownStatuses are the statuses in the filter of a list, in the order in which people look at them.
var shownStatuses = []store.Status{host.Stuck, host.Failed, host.Running, host.Waiting, host.Sleeping, host.Queued, host.Paused,
	host.Completed, host.Cancelled, host.Terminated}
