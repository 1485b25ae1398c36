package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

type scheduleCmd struct {
	List     scheduleListCmd     `cmd:"" default:"1" help:"List schedules."`
	Create   scheduleCreateCmd   `cmd:"" help:"Create a schedule."`
	Update   scheduleUpdateCmd   `cmd:"" help:"Change a schedule; what is not given stays."`
	Show     scheduleShowCmd     `cmd:"" help:"Show a schedule."`
	Next     scheduleNextCmd     `cmd:"" help:"List the next instants of a schedule, or of a cron expression."`
	Pause    schedulePauseCmd    `cmd:"" help:"Pause a schedule; what is due meanwhile is left out."`
	Resume   scheduleResumeCmd   `cmd:"" help:"Let a paused schedule go on."`
	Trigger  scheduleTriggerCmd  `cmd:"" help:"Start a run of a schedule now."`
	Backfill scheduleBackfillCmd `cmd:"" help:"Start the instants of a range that has passed."`
	Delete   scheduleDeleteCmd   `cmd:"" help:"Delete a schedule; its runs go on."`
}

func schedulePath(id, rest string) string { return "/v1/schedules/" + segment(id) + rest }

// schedulePage is how many schedules one request lists.
const schedulePage = 100

type scheduleListCmd struct{}

func (c *scheduleListCmd) Run(g *globals) error {
	list := []httpapi.Schedule{}
	for cursor := ""; ; {
		var page httpapi.List[httpapi.Schedule]
		q := url.Values{"limit": {strconv.Itoa(schedulePage)}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		if _, _, err := g.call(http.MethodGet, "/v1/schedules", q, nil, &page); err != nil {
			return err
		}
		list = append(list, page.Items...)
		cursor = page.Next
		if cursor == "" {
			break
		}
	}
	switch g.Format {
	case "json":
		return g.json(list)
	case "ids":
		for _, s := range list {
			_, _ = fmt.Fprintln(g.io.out, s.ID)
		}
		return nil
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.ID, s.Workflow, s.When, s.Zone, scheduleStatus(&s), instant(s.Next), strconv.FormatInt(s.Started, 10),
			strconv.FormatInt(s.Skipped, 10), strconv.FormatInt(s.Missed, 10)}
	}
	return g.table("schedule\tworkflow\twhen\tzone\tstatus\tnext\tstarted\tskipped\tmissed", rows)
}

func scheduleStatus(s *httpapi.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Error != "":
		return "failing"
	case s.Ended:
		return "ended"
	}
	return "active"
}

// scheduleFlags define a schedule.
type scheduleFlags struct {
	Cron   string `help:"When: a cron expression such as \"0 9 * * MON-FRI\"; @daily, P1M." placeholder:"TEXT" type:"cron"`
	Every  string `help:"When: at this interval, such as 90s." placeholder:"DURATION" type:"interval"`
	Offset string `help:"With --every: so long after the interval begins." placeholder:"DURATION" type:"duration"`
	At     string `help:"When: once, at this instant (RFC 3339) or local time." placeholder:"TIME" type:"cron"`
	TZ     string `name:"tz" help:"Time zone, such as Europe/Berlin; default: UTC." placeholder:"ZONE" type:"zone"`

	Input   string            `help:"Input of each run as JSON, @file, or - for standard input."`
	Number  uint32            `name:"version" help:"Version of the workflow; default: the latest at each start."`
	Timeout string            `help:"Fail a run if it has not ended after this time." placeholder:"DURATION" type:"duration"`
	Attr    map[string]string `help:"Attribute of each run; repeatable." placeholder:"KEY=VALUE" type:"attribute"`
	Memo    string            `help:"What people are to see with each run, as JSON; null: nothing." placeholder:"JSON"`

	Overlap string    `help:"If a run has not ended: ${overlaps}." placeholder:"POLICY" type:"overlap"`
	CatchUp string    `help:"How late an instant is still started; default: 1d." placeholder:"DURATION" type:"catch-up"`
	Jitter  string    `help:"Delay each start by up to this." placeholder:"DURATION" type:"jitter"`
	From    time.Time `help:"Nothing is due before (RFC 3339)."`
	Until   time.Time `help:"Nothing is due after (RFC 3339)."`
	Runs    int64     `help:"Start so many instants; default: any number." placeholder:"N" type:"any-number"`

	Priority *int `help:"Which of those that wait for a slot begins first: -100 to 100; default: 0." placeholder:"N" type:"priority"`
}

// when returns the text of the rule, empty if none is given.
func (f *scheduleFlags) when() (string, error) {
	var list []string
	for _, x := range []string{f.Cron, f.At} {
		if x != "" {
			list = append(list, x)
		}
	}
	if f.Every != "" {
		text := "@every " + f.Every
		if f.Offset != "" {
			text += " offset " + f.Offset
		}
		list = append(list, text)
	}
	if len(list) > 1 || f.Offset != "" && f.Every == "" {
		return "", &exitCode{exitUsage, errors.New("give one of --cron, --every and --at; --offset belongs to --every")}
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0], nil
}

// into sets the given flags in a spec.
func (f *scheduleFlags) into(g *globals, s *httpapi.ScheduleSpec) error {
	when, err := f.when()
	if err == nil {
		err = checkAttributes(f.Attr)
	}
	if err != nil {
		return err
	}
	if f.Input != "" {
		input, err := g.readInput(f.Input)
		if err != nil {
			return err
		}
		if !abi.IsJSON(input) {
			return &exitCode{exitUsage, fmt.Errorf("--input is not JSON: %.80q", input)}
		}
		s.Input, s.Bytes = input, ""
	}
	if f.Memo != "" {
		s.Memo = json.RawMessage(f.Memo)
		if !abi.IsJSON(s.Memo) {
			return &exitCode{exitUsage, fmt.Errorf("--memo is not JSON: %.80q", f.Memo)}
		}
		if err := checkMemo(f.Memo); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		to   *string
		text string
	}{{&s.When, when}, {&s.Zone, f.TZ}, {&s.Timeout, f.Timeout}, {&s.CatchUp, f.CatchUp}, {&s.Jitter, f.Jitter},
		{(*string)(&s.Overlap), f.Overlap}} {
		if x.text != "" {
			*x.to = x.text
		}
	}
	if f.Number != 0 {
		s.Version = f.Number
	}
	if f.Attr != nil {
		s.Attributes = f.Attr
	}
	if !f.From.IsZero() {
		s.From = f.From
	}
	if !f.Until.IsZero() {
		s.Until = f.Until
	}
	if f.Runs != 0 {
		s.Runs = f.Runs
	}
	if f.Priority != nil {
		s.Priority = *f.Priority
	}
	return nil
}

type scheduleCreateCmd struct {
	ID       string `arg:"" name:"schedule" help:"Id of the schedule."`
	Workflow string `arg:"" help:"Name of the workflow."`
	scheduleFlags
}

func (c *scheduleCreateCmd) Run(g *globals) error {
	body := httpapi.NewSchedule{ID: c.ID, ScheduleSpec: httpapi.ScheduleSpec{Workflow: c.Workflow}}
	if err := c.into(g, &body.ScheduleSpec); err != nil {
		return err
	}
	if body.When == "" {
		return &exitCode{exitUsage, errors.New("say when: --cron, --every or --at")}
	}
	return g.schedule(http.MethodPost, "/v1/schedules", body)
}

// schedule makes a request, with a body unless it is nil, and shows the returned schedule.
func (g *globals) schedule(method, path string, body any) error {
	var s httpapi.Schedule
	if err := g.exchange(method, path, body, &s); err != nil {
		return err
	}
	return g.showSchedule(&s)
}

type scheduleUpdateCmd struct {
	ID       string `arg:"" name:"schedule" help:"Id of the schedule."`
	Workflow string `help:"Name of the workflow."`
	scheduleFlags
}

func (c *scheduleUpdateCmd) Run(g *globals) error {
	var s httpapi.Schedule
	if _, _, err := g.call(http.MethodGet, schedulePath(c.ID, ""), nil, nil, &s); err != nil {
		return err
	}
	if c.Workflow != "" {
		s.Workflow = c.Workflow
	}
	if err := c.into(g, &s.ScheduleSpec); err != nil {
		return err
	}
	return g.schedule(http.MethodPut, schedulePath(c.ID, ""), s.ScheduleSpec)
}

type scheduleShowCmd struct {
	ID string `arg:"" name:"schedule" help:"Id of the schedule."`
}

func (c *scheduleShowCmd) Run(g *globals) error {
	return g.schedule(http.MethodGet, schedulePath(c.ID, ""), nil)
}

// scheduleInput returns the input of a schedule for display.
func scheduleInput(s *httpapi.Schedule) string {
	if s.Bytes != "" {
		return short(s.Bytes) + " in base64"
	}
	return short(s.Input)
}

// showSchedule prints a schedule and the outcomes of its newest instants.
func (g *globals) showSchedule(s *httpapi.Schedule) error {
	switch g.Format {
	case "json":
		return g.json(s)
	case "ids":
		_, _ = fmt.Fprintln(g.io.out, s.ID)
		return nil
	}
	rows := [][]string{{"schedule", s.ID}, {"workflow", s.Workflow}, {"when", s.When}, {"zone", s.Zone},
		{"status", scheduleStatus(s)}, {"next", instant(s.Next)}, {"overlap", string(s.Overlap)}, {"catch-up", s.CatchUp},
		{"jitter", s.Jitter}, {"note", s.Note},
		{"started", strconv.FormatInt(s.Started, 10)}, {"skipped", strconv.FormatInt(s.Skipped, 10)},
		{"missed", strconv.FormatInt(s.Missed, 10)}, {"input", scheduleInput(s)}, {"memo", string(s.Memo)}, {"error", s.Error}}
	for _, id := range s.Running {
		rows = append(rows, []string{"running", id})
	}
	for _, at := range s.Waiting {
		rows = append(rows, []string{"waiting", instant(at)})
	}
	for _, b := range s.Backfills {
		rows = append(rows, []string{"backfill", instant(b.After) + " to " + instant(b.To)})
	}
	for _, r := range s.Recent {
		rows = append(rows, []string{"run", instant(r.Nominal) + " " + r.Run + " " + r.Kind})
	}
	for _, m := range s.NotStarted {
		text := fmt.Sprintf("%s to %s, %d: %s", instant(m.From), instant(m.To), m.Count, m.Reason)
		rows = append(rows, []string{"not started", text})
	}
	return g.table("field\tvalue", rows)
}

type scheduleNextCmd struct {
	ID   string `arg:"" optional:"" name:"schedule" help:"Id of the schedule; without it, give --cron."`
	N    int    `short:"n" help:"How many." default:"10" type:"instants"`
	Cron string `help:"A cron expression to be looked at, without a server." placeholder:"TEXT" type:"cron"`
	TZ   string `name:"tz" help:"Its time zone." placeholder:"ZONE" type:"zone"`
}

func (c *scheduleNextCmd) Run(g *globals) error {
	list := []host.ScheduleInstant{}
	switch {
	case (c.ID == "") == (c.Cron == ""):
		return &exitCode{exitUsage, errors.New("give the id of a schedule, or --cron")}
	case c.Cron != "":
		times, err := host.ScheduleSpec{When: c.Cron, Zone: c.TZ}.Next(g.now(), c.N)
		if err != nil {
			return &exitCode{exitUsage, err}
		}
		for _, t := range times {
			list = append(list, host.ScheduleInstant{Nominal: t, Start: t})
		}
	default:
		q := url.Values{"limit": {strconv.Itoa(c.N)}}
		if _, _, err := g.call(http.MethodGet, schedulePath(c.ID, "/next"), q, nil, httpapi.ItemsOf(&list)); err != nil {
			return err
		}
	}
	if g.Format == "json" {
		return g.json(list)
	}
	rows := make([][]string, len(list))
	for i, x := range list {
		rows[i] = []string{instant(x.Nominal), instant(x.Start)}
	}
	return g.table("nominal\tstart", rows)
}

type schedulePauseCmd struct {
	ID   string `arg:"" name:"schedule" help:"Id of the schedule."`
	Note string `help:"Why."`
}

func (c *schedulePauseCmd) Run(g *globals) error {
	return g.schedule(http.MethodPost, schedulePath(c.ID, "/pause"), httpapi.ScheduleNote{Note: c.Note})
}

type scheduleResumeCmd struct {
	ID   string `arg:"" name:"schedule" help:"Id of the schedule."`
	Note string `help:"Why."`
}

func (c *scheduleResumeCmd) Run(g *globals) error {
	return g.schedule(http.MethodPost, schedulePath(c.ID, "/resume"), httpapi.ScheduleNote{Note: c.Note})
}

type scheduleTriggerCmd struct {
	ID      string `arg:"" name:"schedule" help:"Id of the schedule."`
	Overlap string `help:"Policy in place of that of the schedule." placeholder:"POLICY" type:"overlap"`
}

func (c *scheduleTriggerCmd) Run(g *globals) error {
	body, err := json.Marshal(httpapi.ScheduleTrigger{Overlap: host.Overlap(c.Overlap)})
	if err != nil {
		return err
	}
	var t httpapi.Triggered
	if _, _, err := g.call(http.MethodPost, schedulePath(c.ID, "/trigger"), nil, body, &t); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(t)
	}
	if t.Waiting {
		_, err = fmt.Fprintln(g.io.out, "the start waits for the end of a run")
	} else {
		_, err = fmt.Fprintln(g.io.out, t.Run)
	}
	return err
}

type scheduleBackfillCmd struct {
	ID   string    `arg:"" name:"schedule" help:"Id of the schedule."`
	From time.Time `required:"" help:"The first instant that may be started (RFC 3339)."`
	To   time.Time `required:"" help:"The last one."`
	All  bool      `help:"Start them beside each other instead of one after the other."`
}

func (c *scheduleBackfillCmd) Run(g *globals) error {
	return g.schedule(http.MethodPost, schedulePath(c.ID, "/backfill"), httpapi.ScheduleRange{From: c.From, To: c.To, All: c.All})
}

type scheduleDeleteCmd struct {
	ID string `arg:"" name:"schedule" help:"Id of the schedule."`
}

func (c *scheduleDeleteCmd) Run(g *globals) error {
	_, _, err := g.call(http.MethodDelete, schedulePath(c.ID, ""), nil, nil, nil)
	return err
}
