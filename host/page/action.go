package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// action is an action of a visitor on a run or a schedule.
type action struct {
	Label  string // of the button
	Past   string // what the page says when it is done
	Does   string // what it will do, for the confirmation
	Scope  host.Scope
	Danger bool // it cannot be undone
}

// actions has all actions by their names in addresses.
var actions = map[string]action{
	"retry": {Label: "Retry", Past: "The run goes on.", Scope: host.ScopeOperate,
		Does: "The failures that led to the end are forgotten, and those steps are made again, with new attempts. Steps that have " +
			"succeeded are not made again. The run has no deadline any more."},
	"wake": {Label: "Wake", Past: "The run was woken.", Scope: host.ScopeOperate,
		Does: "Sleeps end before their time. With a name that sleep ends, and nothing else; without one all sleeps of the run end, " +
			"and the time that was skipped counts as passed for its timers."},
	"signal": {Label: "Signal", Past: "The signal was given.", Scope: host.ScopeRun,
		Does: "The signal is kept, durably, until the workflow takes it. It cannot be taken back."},
	"pause": {Label: "Pause", Past: "The run is paused.", Scope: host.ScopeOperate,
		Does: "The run stops where it waits next, until it is unpaused. Attempts of steps that are under way finish; " +
			"nothing new begins."},
	"unpause": {Label: "Unpause", Past: "The run goes on.", Scope: host.ScopeOperate,
		Does: "The run goes on. What came due meanwhile comes first, in the order of the deadlines."},
	"cancel": {Label: "Cancel", Past: "The run was asked to end.", Scope: host.ScopeOperate, Danger: true,
		Does: "The run is asked to end. A workflow that takes a cancel is told, and cleans up by itself; another one ends as " +
			"cancelled: attempts of its steps are told to stop, and none of its code runs any more."},
	"terminate": {Label: "Terminate", Past: "The run was terminated.", Scope: host.ScopeOperate, Danger: true,
		Does: "The run ends at once, whatever it would do about a cancel. Nothing is cleaned up, and it cannot be retried."},
	"restart": {Label: "Restart", Past: "This is the new run.", Scope: host.ScopeOperate,
		Does: "A new run begins, with the same workflow, version, input and random numbers. From a name on, it keeps what this run " +
			"did before that step, sleep or child, and does the rest again. This run stays as it is."},
	"delete": {Label: "Delete", Past: "The run was deleted.", Scope: host.ScopeOperate, Danger: true,
		Does: "The run is deleted with its journal, log and output. An id that was given to it stays taken for a while. It " +
			"cannot be brought back."},

	"check": {Label: "Check against", Past: "The runs were checked.", Scope: host.ScopeOperate,
		Does: "Each live run of another version is replayed in memory against this one, to see whether it would do the same. " +
			"Nothing changes."},
	"migrate": {Label: "Migrate to", Past: "The runs were migrated.", Scope: host.ScopeOperate,
		Does: "Each live run of another version is replayed against this one. If it would do the same, it goes on under this " +
			"version, by an entry in its journal; otherwise it stays as it is. To go back is to migrate to the version before."},

	"revoke": {Label: "Revoke", Past: "The token was revoked.", Scope: host.ScopeAdmin, Danger: true,
		Does: "No request is accepted with the token any more, and nobody stays logged in with it. It cannot be brought back."},

	"trigger": {Label: "Start now", Past: "A run was started.", Scope: host.ScopeRun,
		Does: "A run of the schedule is started now, whether it is paused or not. Its other instants stay as they are."},
	"pause-schedule": {Label: "Pause", Past: "The schedule is paused.", Scope: host.ScopeOperate,
		Does: "The schedule starts nothing until it is resumed. Instants that come meanwhile are left out. Its runs go on."},
	"resume-schedule": {Label: "Resume", Past: "The schedule goes on.", Scope: host.ScopeOperate,
		Does: "The schedule starts what is due from now on."},
}

// offer is an action that is possible in the run's status.
type offer struct {
	action
	Name string
	Link string
	Help bool // likely to help
}

// offers returns the possible actions on a run, the most helpful first.
func (v *visit) offers(r *host.Run, t *timeline) (list []offer) {
	add := func(name, label string, help bool, parameters ...any) {
		a := actions[name]
		if !v.Can(string(a.Scope)) {
			return
		}
		if label != "" {
			a.Label = label
		}
		list = append(list, offer{a, name, v.Run(r.ID, append([]any{"/do/" + name}, parameters...)...), help})
	}
	if r.Aside != "" {
		add("restart", "", false)
		return list
	}
	ended := r.Status.Terminal()
	switch {
	case r.Status == host.Failed || r.Status == host.Stuck:
		add("retry", "", true)
	case r.Status == host.Paused:
		add("unpause", "", true)
	}
	if !ended && r.Status != host.Stuck {
		v.offerWaits(r, t, add)
		add("signal", "Signal …", false)
		if r.Status != host.Paused {
			add("pause", "", false)
		}
	}
	from := ""
	for _, x := range t.Rows {
		if x.State == failed && slices.Contains([]string{"step", "child"}, x.Kind) {
			from = x.Name
		}
	}
	if from != "" && ended {
		add("restart", "Restart from "+line(from, 30), false, "from", from)
	}
	add("restart", "", false)
	if !ended {
		add("cancel", "", false)
		add("terminate", "", false)
	} else {
		add("delete", "", false)
	}
	return list
}

// offerWaits adds actions for the calls that a run waits for.
func (v *visit) offerWaits(r *host.Run, t *timeline, add func(name, label string, help bool, parameters ...any)) {
	named, pending := 0, t.pending()
	sleeps := len(pending) == 0 && !r.Wake.IsZero() // with the guest's own clock
	for _, p := range pending {
		sleeps = sleeps || p.Kind == "sleep"
		if named == maxWaits {
			continue
		}
		switch {
		case p.Kind == "sleep" && p.Name != "":
			add("wake", "Wake "+line(p.Name, 30), r.Status != host.Paused, "name", p.Name)
			named++
		case p.Kind == "signal" && p.update() == "":
			add("signal", "Signal "+line(p.Name, 30), true, "name", p.Name)
			named++
		}
	}
	if sleeps {
		add("wake", "Wake all sleeps", false)
	}
}

// field is a field of a form.
type field struct {
	Name, Label, Value, Help string
	Kind                     string // text, number, area, check, or one of the types of input
	Options                  []string
	Required                 bool
	Problem                  string
}

// confirmData is the page that confirms an action.
type confirmData struct {
	action
	Name    string
	What    string // the run or schedule
	Of      string // its workflow
	Status  string
	Fields  []field
	Back    string
	To      string
	Problem string
	Checks  []versionCheck // of a stuck run
	Best    uint32         // the version under which to retry the run
	Plan    *host.RestartPlan
}

// confirm shows what an action on a run will do.
func (v *visit) confirm() error {
	return v.confirmation(http.StatusOK, "", v.r.URL.Query())
}

func (v *visit) confirmation(status int, problem string, given url.Values) error {
	name, id := v.r.PathValue("action"), v.r.PathValue("id")
	a, ok := actions[name]
	if !ok || strings.HasSuffix(name, "-schedule") || name == "trigger" {
		return say(http.StatusNotFound, "There is no action %.80q on a run.", name)
	}
	if err := v.needs(a.Scope); err != nil {
		return err
	}
	r, err := v.ns.Get(v.r.Context(), id)
	if err != nil {
		return err
	}
	d := &confirmData{action: a, Name: name, What: r.ID, Of: fmt.Sprintf("%s, version %d", r.Workflow, r.Version),
		Status: r.Status.String(), Back: v.Run(r.ID), To: v.Run(r.ID, "/do/"+name), Problem: problem}
	switch name {
	case "wake":
		d.Fields = []field{{Name: "name", Label: "Name of the sleep", Value: given.Get("name"), Kind: "text",
			Help: "Empty: all sleeps of the run."}}
	case "signal":
		signals, _ := v.ns.SignalsOf(v.r.Context(), id) // none if the workflow declares none
		d.Fields = []field{{Name: "name", Label: "Name of the signal", Value: given.Get("name"), Kind: "text", Options: signals,
			Required: true},
			{Name: "payload", Label: "Payload", Value: given.Get("payload"), Kind: "area", Help: "JSON; empty for none."},
			{Name: "key", Label: "Idempotency key", Value: given.Get("key"), Kind: "text",
				Help: "A signal with the same key again is not given twice."}}
	case "restart":
		d.Fields = []field{{Name: "from", Label: "From the step, sleep or child", Value: given.Get("from"), Kind: "text",
			Help: "Empty: from the beginning."},
			{Name: "new", Label: "Id of the new run", Value: given.Get("new"), Kind: "text", Help: "Empty: one is made."},
			{Name: "version", Label: "Version", Value: given.Get("version"), Kind: "number", Help: "Empty: that of the run."},
			{Name: "iteration", Label: "Iteration", Value: given.Get("iteration"), Kind: "number",
				Help: "Of a run that has continued as new. Empty: the newest one that has the step, or the first one."},
			{Name: "keep_undone", Label: "Keep what was undone", Kind: "check",
				Help: "Results that were undone since, and children that were cancelled, count as they are recorded."}}
		if o, err := restartOptions(given); err == nil && problem == "" {
			if p, err := v.ns.PlanRestart(v.r.Context(), id, o); err == nil {
				d.Plan = &p
			}
		}
	case "retry":
		f := field{Name: "version", Label: "Version", Value: given.Get("version"), Kind: "number",
			Help: fmt.Sprintf("Empty: it goes on under version %d.", r.Version)}
		if r.Status == host.Stuck && r.Help != "" { // its workflow diverges from its journal
			d.Checks, d.Best = v.fits(&r)
			if d.Best != 0 && !given.Has("version") {
				f.Value = fmt.Sprint(d.Best)
			}
		}
		d.Fields = []field{f}
	}
	return v.write(status, "confirm", a.Label+" "+r.ID, d)
}

// act performs a confirmed action, and shows the run.
func (v *visit) act() error {
	name := v.r.PathValue("action")
	a, ok := actions[name]
	do := runActions[name]
	if !ok || do == nil {
		return say(http.StatusNotFound, "There is no action %.80q on a run.", name)
	}
	if err := v.needs(a.Scope); err != nil {
		return err
	}
	to, err := do(v, v.r.Context(), v.r.PathValue("id"))
	if status := statusOf(err); err != nil && status < http.StatusInternalServerError && status != http.StatusNotFound {
		return v.confirmation(status, upper(err.Error())+".", v.form) // the visitor can correct it there
	}
	if err != nil {
		return err
	}
	v.changed = true
	v.redirect(to)
	return nil
}

// runActions performs the actions on a run, and returns the address to go on to.
var runActions = map[string]func(v *visit, ctx context.Context, id string) (to string, err error){
	"retry": func(v *visit, ctx context.Context, id string) (string, error) {
		version := uint64(0)
		if text := strings.TrimSpace(v.form.Get("version")); text != "" {
			var err error
			version, err = strconv.ParseUint(text, 10, 32)
			if err != nil {
				return "", say(http.StatusBadRequest, "The version must be a number from 1, got %.40q", text)
			}
		}
		return v.Run(id, "done", "retry"), v.ns.Retry(ctx, id, uint32(version)) //nolint:gosec // parsed as 32 bits
	},
	"wake": func(v *visit, ctx context.Context, id string) (string, error) {
		n, err := v.ns.Wake(ctx, id, v.form.Get("name"))
		if err == nil && n == 0 {
			err = say(http.StatusConflict, "The run has no such sleep that has not ended")
		}
		return v.Run(id, "done", "wake"), err
	},
	"signal": func(v *visit, ctx context.Context, id string) (string, error) {
		return v.Run(id, "done", "signal"), v.signal(ctx, id)
	},
	"pause": func(v *visit, ctx context.Context, id string) (string, error) {
		_, err := v.ns.Pause(ctx, id)
		return v.Run(id, "done", "pause"), err
	},
	"unpause": func(v *visit, ctx context.Context, id string) (string, error) {
		_, err := v.ns.Unpause(ctx, id)
		return v.Run(id, "done", "unpause"), err
	},
	"cancel": func(v *visit, ctx context.Context, id string) (string, error) {
		_, err := v.ns.Cancel(ctx, id)
		return v.Run(id, "done", "cancel"), err
	},
	"terminate": func(v *visit, ctx context.Context, id string) (string, error) {
		return v.Run(id, "done", "terminate"), v.ns.Terminate(ctx, id)
	},
	"restart": func(v *visit, ctx context.Context, id string) (string, error) {
		o, err := restartOptions(v.form)
		if err != nil {
			return "", err
		}
		r, err := v.ns.RestartWith(ctx, id, o)
		return v.Run(r.ID, "done", "restart"), err
	},
	"delete": func(v *visit, ctx context.Context, id string) (string, error) {
		return v.Link("/runs", "done", "delete"), v.ns.Delete(ctx, id)
	},
}

// restartOptions reads the form of a restart.
func restartOptions(form url.Values) (o host.RestartOptions, err error) {
	o = host.RestartOptions{NewID: strings.TrimSpace(form.Get("new")), From: form.Get("from")}
	o.KeepUndone = form.Get("keep_undone") != ""
	number := func(name string) (n uint64, has bool) {
		text := strings.TrimSpace(form.Get(name))
		if text == "" || err != nil {
			return 0, false
		}
		n, err = strconv.ParseUint(text, 10, 32)
		if err != nil {
			err = say(http.StatusBadRequest, "The %s must be a number, got %.40q", name, text)
		}
		return n, err == nil
	}
	if n, has := number("version"); has {
		o.Version = uint32(n) //nolint:gosec // parsed as 32 bits
	}
	if n, has := number("iteration"); has {
		i := uint32(n) //nolint:gosec // parsed as 32 bits
		o.Iteration = &i
	}
	return o, err
}

// signal sends a signal to a run. As in the HTTP API, signals that the workflow does not receive are refused.
func (v *visit) signal(ctx context.Context, id string) error {
	name, text := strings.TrimSpace(v.form.Get("name")), strings.TrimSpace(v.form.Get("payload"))
	declared, err := v.ns.SignalsOf(ctx, id)
	switch {
	case err != nil:
		return err
	case len(declared) > 0 && !slices.Contains(declared, name):
		return say(http.StatusUnprocessableEntity, "The workflow receives the signals %q, got %.200q", declared, name)
	case text != "" && !abi.IsJSON([]byte(text)):
		return say(http.StatusUnprocessableEntity, "The payload must be JSON (a text stands in quotes), got %.80q", text)
	}
	var opts []host.SignalOption
	if key := strings.TrimSpace(v.form.Get("key")); key != "" {
		opts = append(opts, host.WithIdempotencyKey(key))
	}
	return v.ns.SignalRaw(ctx, id, name, []byte(text), opts...)
}
