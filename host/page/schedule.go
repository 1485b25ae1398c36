package page

import (
	"net/http"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host"
)

const (
	// pageSchedules is the number of schedules on a page.
	pageSchedules = 100
	// shownInstants is how many next instants of a schedule are shown.
	shownInstants = 10
)

// schedulesData is the list of schedules.
type schedulesData struct {
	Schedules []host.Schedule
	Next      string // the id after which the next page begins, empty on the last page
}

// schedules lists the schedules.
func (v *visit) schedules() error {
	page, err := v.ns.Schedules().Page(v.r.Context(), v.r.URL.Query().Get("after"), pageSchedules)
	if err != nil && statusOf(err) != http.StatusNotFound {
		return err
	}
	d := &schedulesData{page.Schedules, page.Next}
	return v.write(http.StatusOK, "schedules", "Schedules", d)
}

// scheduleData is the page of a schedule.
type scheduleData struct {
	host.Schedule
	Instants []host.ScheduleInstant
	Input    *payload
	Offers   []offer
	Done     string
}

// schedule shows a schedule with its next instants.
func (v *visit) schedule() error {
	ctx, id := v.r.Context(), v.r.PathValue("schedule")
	s, err := v.ns.Schedules().Get(ctx, id)
	if err != nil {
		return err
	}
	d := &scheduleData{Schedule: s, Input: show("Input", "", s.Spec.Input), Done: actions[v.r.URL.Query().Get("done")].Past}
	if !s.Ended {
		d.Instants, err = v.ns.Schedules().Next(ctx, id, shownInstants)
		if err != nil {
			return err
		}
	}
	names := []string{"trigger", "pause-schedule"}
	if s.Paused {
		names[1] = "resume-schedule"
	}
	for _, name := range names {
		if a := actions[name]; v.Can(string(a.Scope)) {
			d.Offers = append(d.Offers, offer{action: a, Name: name, Link: v.Schedule(id, "/do/"+name)})
		}
	}
	return v.write(http.StatusOK, "schedule", "Schedule "+id, d)
}

// confirmSchedule shows what an action on a schedule will do.
func (v *visit) confirmSchedule() error { return v.confirmationOfSchedule(http.StatusOK, "") }

func (v *visit) confirmationOfSchedule(status int, problem string) error {
	name, id := v.r.PathValue("action"), v.r.PathValue("schedule")
	if scheduleActions[name] == nil {
		return say(http.StatusNotFound, "There is no action %.80q on a schedule.", name)
	}
	a := actions[name]
	if err := v.needs(a.Scope); err != nil {
		return err
	}
	s, err := v.ns.Schedules().Get(v.r.Context(), id)
	if err != nil {
		return err
	}
	d := &confirmData{action: a, Name: name, What: id, Of: s.Spec.Workflow + ", " + s.Spec.When, Back: v.Schedule(id),
		To: v.Schedule(id, "/do/"+name), Problem: problem}
	if name != "trigger" {
		d.Fields = []field{{Name: "note", Label: "Note", Kind: "text", Value: v.form.Get("note"),
			Help: "Why; it is shown with the schedule."}}
	}
	return v.write(status, "confirm", a.Label+" "+id, d)
}

// scheduleActions performs the actions on a schedule, and returns the address to go on to.
var scheduleActions = map[string]func(v *visit, id string) (string, error){
	"trigger": func(v *visit, id string) (string, error) {
		r, err := v.ns.Schedules().Trigger(v.r.Context(), id, "")
		if r.ID == "" { // it waits for the end of another run
			return v.Schedule(id), err
		}
		return v.Run(r.ID), err
	},
	"pause-schedule": func(v *visit, id string) (string, error) {
		_, err := v.ns.Schedules().Pause(v.r.Context(), id, strings.TrimSpace(v.form.Get("note")))
		return v.Schedule(id), err
	},
	"resume-schedule": func(v *visit, id string) (string, error) {
		_, err := v.ns.Schedules().Resume(v.r.Context(), id, strings.TrimSpace(v.form.Get("note")))
		return v.Schedule(id), err
	},
}

// actSchedule performs a confirmed action.
func (v *visit) actSchedule() error {
	name := v.r.PathValue("action")
	do := scheduleActions[name]
	if do == nil {
		return say(http.StatusNotFound, "There is no action %.80q on a schedule.", name)
	}
	if err := v.needs(actions[name].Scope); err != nil {
		return err
	}
	to, err := do(v, v.r.PathValue("schedule"))
	if status := statusOf(err); err != nil && status < http.StatusInternalServerError && status != http.StatusNotFound {
		return v.confirmationOfSchedule(status, upper(err.Error())+".")
	}
	if err != nil {
		return err
	}
	v.changed = true
	v.redirect(to)
	return nil
}

// limitsData has the limits and windows that hold back runs and steps.
type limitsData struct {
	Limits   []host.WorkflowLimitInfo
	Handlers []host.HandlerLimitInfo
	Windows  []host.StartWindow
	Workers  []host.RemoteHandler
	Quota    []pair
	Usage    host.Usage
}

// limits shows the limits with their queues.
func (v *visit) limits() error {
	d, ctx := &limitsData{}, v.r.Context()
	var errs [6]error
	d.Limits, errs[0] = v.ns.WorkflowLimits().List(ctx)
	d.Handlers, errs[1] = v.ns.HandlerLimits().List(ctx)
	d.Windows, errs[2] = v.ns.StartWindows().List(ctx)
	d.Workers, errs[3] = v.ns.Attempts().Handlers(ctx)
	d.Usage, errs[4] = v.ns.Usage(ctx)
	q, err := v.ns.Quota(ctx)
	errs[5] = err
	for _, err := range errs {
		if err != nil && statusOf(err) != http.StatusNotFound { // nothing was uploaded to the namespace
			return err
		}
	}
	for _, x := range []struct {
		name string
		n    int64
		used string
	}{{"Live runs", q.MaxRuns, v.Count(d.Usage.Runs)}, {"Bytes", q.MaxBytes, size(d.Usage.Bytes)},
		{"Guests that compute", q.MaxInstances, v.Count(d.Usage.Instances)}, {"Starts a second", q.StartsPerSecond, ""},
		{"Requests a second", q.RequestsPerSecond, ""}, {"Wakes a second", q.WakesPerSecond, ""},
		{"Bytes a second", q.BytesPerSecond, ""},
		{"Schedules", q.MaxSchedules, ""}, {"Versions", q.MaxVersions, ""}} {
		text := "no limit"
		if x.n > 0 {
			text = "at most " + v.Count(x.n)
		}
		if x.used != "" {
			text = x.used + ", " + text
		}
		if x.n > 0 || x.used != "" {
			d.Quota = append(d.Quota, pair{x.name, text})
		}
	}
	slices.SortFunc(d.Limits, func(a, b host.WorkflowLimitInfo) int { return strings.Compare(a.Workflow, b.Workflow) })
	return v.write(http.StatusOK, "limits", "Limits", d)
}
