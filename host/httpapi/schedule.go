package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// ScheduleSpec says what a schedule starts, and when.
type ScheduleSpec struct {
	Workflow   string            `json:"workflow"`
	Version    uint32            `json:"version,omitempty" doc:"the latest at each start without it"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Bytes      string            `json:"input_base64,omitempty" doc:"in place of input: bytes that are no JSON"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       json.RawMessage   `json:"memo,omitempty" doc:"of each run, shown with it: at most 2,048 bytes"`
	Timeout    string            `json:"timeout,omitempty" doc:"of each run, duration text"`
	When       string            `json:"when" doc:"a cron expression, @every, an instant, or ISO 8601"`
	Zone       string            `json:"zone,omitempty" doc:"time zone such as Europe/Berlin; UTC without it"`
	Jitter     string            `json:"jitter,omitempty" doc:"duration text"`
	Overlap    host.Overlap      `json:"overlap,omitempty" doc:"skip, or another policy: see docs/runs/schedules.md"`
	CatchUp    string            `json:"catch_up,omitempty" doc:"duration text; 1d without it"`
	From       time.Time         `json:"from,omitzero" required:"false"`
	Until      time.Time         `json:"until,omitzero" required:"false"`
	Runs       int64             `json:"runs,omitempty" doc:"so many instants are started; any number without it"`
	Priority   int               `json:"priority,omitempty" doc:"of each run among those that wait for a slot, -100 to 100"`
	Revision   uint64            `json:"revision,omitempty" doc:"of the spec that is shown, or replaced; any without it"`
}

// NewSchedule is the body of a request that creates a schedule.
type NewSchedule struct {
	ID string `json:"id"`
	ScheduleSpec
}

// Schedule is the current state of a schedule: see host.Schedule.
type Schedule struct {
	ID string `json:"id"`
	ScheduleSpec
	Namespace  string                  `json:"namespace,omitempty"`
	Created    time.Time               `json:"created"`
	Updated    time.Time               `json:"updated"`
	Paused     bool                    `json:"paused"`
	Note       string                  `json:"note,omitempty"`
	Ended      bool                    `json:"ended"`
	Next       time.Time               `json:"next,omitzero"`
	Wake       time.Time               `json:"wake,omitzero"`
	Started    int64                   `json:"started"`
	Skipped    int64                   `json:"skipped"`
	Missed     int64                   `json:"missed"`
	Running    []string                `json:"running,omitempty"`
	Waiting    []time.Time             `json:"waiting,omitempty"`
	Recent     []host.ScheduledRun     `json:"recent,omitempty"`
	NotStarted []host.ScheduleMiss     `json:"not_started,omitempty"`
	Backfills  []host.ScheduleBackfill `json:"backfills,omitempty"`
	Error      string                  `json:"error,omitempty"`
}

// ScheduleNote is the body of a pause and of a resume.
type ScheduleNote struct {
	Note string `json:"note,omitempty"`
}

// ScheduleTrigger is the body of a trigger.
type ScheduleTrigger struct {
	Overlap host.Overlap `json:"overlap,omitempty" doc:"in place of the schedule's"`
}

// ScheduleRange is the body of a backfill.
type ScheduleRange struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	All  bool      `json:"all,omitempty" doc:"beside each other instead of one after the other"`
}

// Triggered is the answer to a trigger.
type Triggered struct {
	Run     string `json:"run,omitempty"`
	Waiting bool   `json:"waiting,omitempty"` // for the end of another run
}

// SchedulePath names the schedule of a request.
type SchedulePath struct {
	ID string `path:"schedule"`
}

type scheduleBody struct{ Body Schedule }

func shownSchedule(s host.Schedule, err error) (*scheduleBody, error) {
	if err != nil {
		return nil, failed(err)
	}
	return &scheduleBody{scheduleOf(s)}, nil
}

// mayStart returns a problem for callers who may not start runs, since a schedule starts runs.
func mayStart(ctx context.Context) error {
	if c := callerOf(ctx); !c.Allows(host.ScopeRun, c.in) {
		return problem(http.StatusForbidden, "scope", "a schedule starts runs: %s", c.refusal(host.ScopeRun, c.in))
	}
	return nil
}

func (s *API) registerSchedules(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "schedules", Method: http.MethodGet, Path: "/v1/schedules",
		Summary: "List schedules by id"},
		func(ctx context.Context, in *struct {
			Cursor string `query:"cursor" doc:"next of the page before"`
			Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
		}) (*listOutput[Schedule], error) {
			page, err := namespaceFrom(ctx).Schedules().Page(ctx, in.Cursor, in.Limit)
			out := []Schedule{}
			for _, x := range page.Schedules {
				out = append(out, scheduleOf(x))
			}
			return paged(out, page.Next, err)
		})
	huma.Register(api, huma.Operation{OperationID: "create-schedule", Method: http.MethodPost, Path: "/v1/schedules",
		Summary: "Create a schedule", DefaultStatus: http.StatusCreated},
		func(ctx context.Context, in *struct{ Body NewSchedule }) (*scheduleBody, error) {
			spec, err := in.Body.parse()
			if err == nil {
				err = mayStart(ctx)
			}
			if err != nil {
				return nil, err
			}
			return shownSchedule(namespaceFrom(ctx).Schedules().Create(ctx, in.Body.ID, spec))
		})
	huma.Register(api, huma.Operation{OperationID: "update-schedule", Method: http.MethodPut, Path: "/v1/schedules/{schedule}",
		Summary: "Replace what a schedule starts when"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Body ScheduleSpec
		}) (*scheduleBody, error) {
			spec, err := in.Body.parse()
			if err == nil {
				err = mayStart(ctx)
			}
			if err != nil {
				return nil, err
			}
			return shownSchedule(namespaceFrom(ctx).Schedules().Update(ctx, in.ID, spec))
		})
	huma.Register(api, huma.Operation{OperationID: "schedule", Method: http.MethodGet, Path: "/v1/schedules/{schedule}",
		Summary: "Show a schedule"},
		func(ctx context.Context, in *SchedulePath) (*scheduleBody, error) {
			return shownSchedule(namespaceFrom(ctx).Schedules().Get(ctx, in.ID))
		})
	huma.Register(api, huma.Operation{OperationID: "delete-schedule", Method: http.MethodDelete, Path: "/v1/schedules/{schedule}",
		Summary: "Delete a schedule; its runs go on", DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *SchedulePath) (*struct{}, error) {
			return nil, failed(namespaceFrom(ctx).Schedules().Delete(ctx, in.ID))
		})
	huma.Register(api, huma.Operation{OperationID: "schedule-next", Method: http.MethodGet, Path: "/v1/schedules/{schedule}/next",
		Summary: "List the next instants of a schedule"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Limit int `query:"limit" default:"10" minimum:"1" maximum:"1000"`
		}) (*listOutput[host.ScheduleInstant], error) {
			list, err := namespaceFrom(ctx).Schedules().Next(ctx, in.ID, in.Limit)
			return listed(list, err)
		})
	s.registerScheduleActions(api)
}

func (s *API) registerScheduleActions(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "pause-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{schedule}/pause", Summary: "Pause a schedule: what is due meanwhile is left out"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Body ScheduleNote
		}) (*scheduleBody, error) {
			return shownSchedule(namespaceFrom(ctx).Schedules().Pause(ctx, in.ID, in.Body.Note))
		})
	huma.Register(api, huma.Operation{OperationID: "resume-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{schedule}/resume", Summary: "Let a paused schedule go on with what is due from now on"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Body ScheduleNote
		}) (*scheduleBody, error) {
			return shownSchedule(namespaceFrom(ctx).Schedules().Resume(ctx, in.ID, in.Body.Note))
		})
	huma.Register(api, huma.Operation{OperationID: "trigger-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{schedule}/trigger", Summary: "Start a run of a schedule now"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Body ScheduleTrigger
		}) (*struct{ Body Triggered }, error) {
			o, c := in.Body.Overlap, callerOf(ctx)
			if (o == host.OverlapCancelOther || o == host.OverlapTerminateOther) && !c.Allows(host.ScopeOperate, c.in) {
				return nil, problem(http.StatusForbidden, "scope", "the overlap policy %q ends runs: %s", o,
					c.refusal(host.ScopeOperate, c.in))
			}
			r, err := namespaceFrom(ctx).Schedules().Trigger(ctx, in.ID, o)
			return &struct{ Body Triggered }{Triggered{r.ID, r.ID == ""}}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "backfill-schedule", Method: http.MethodPost,
		Path: "/v1/schedules/{schedule}/backfill", Summary: "Start the instants of a range that has passed"},
		func(ctx context.Context, in *struct {
			SchedulePath
			Body ScheduleRange
		}) (*scheduleBody, error) {
			if err := mayStart(ctx); err != nil {
				return nil, err
			}
			return shownSchedule(namespaceFrom(ctx).Schedules().Backfill(ctx, in.ID, in.Body.From, in.Body.To, in.Body.All))
		})
}

// span pairs a duration of a ScheduleSpec with its field in host.ScheduleSpec.
type span struct {
	name string
	text *string
	d    *time.Duration
}

func (s *ScheduleSpec) spans(h *host.ScheduleSpec) []span {
	return []span{{"timeout", &s.Timeout, &h.Timeout}, {"jitter", &s.Jitter, &h.Jitter}, {"catch_up", &s.CatchUp, &h.CatchUp}}
}

// parse converts the spec for the host.
func (s *ScheduleSpec) parse() (host.ScheduleSpec, error) {
	out := host.ScheduleSpec{Workflow: s.Workflow, Version: s.Version, Input: s.Input, Attributes: s.Attributes, Memo: s.Memo,
		When: s.When, Zone: s.Zone, Overlap: s.Overlap, From: s.From, Until: s.Until, Runs: s.Runs, Priority: s.Priority,
		Revision: s.Revision}
	if s.Bytes != "" {
		b, err := base64.StdEncoding.DecodeString(s.Bytes)
		if err != nil || s.Input != nil {
			return out, problem(http.StatusBadRequest, "invalid", "input_base64 must be base64, and without an input beside it")
		}
		out.Input = b
	}
	for _, x := range s.spans(&out) {
		if *x.text == "" {
			continue
		}
		ms, err := abi.ParseTimeout(*x.text)
		if err != nil {
			return out, problem(http.StatusBadRequest, "invalid", "%s: %v", x.name, err)
		}
		*x.d = abi.Duration(ms)
	}
	return out, nil
}

// scheduleOf converts a schedule of the host.
func scheduleOf(s host.Schedule) Schedule {
	h := &s.Spec
	out := Schedule{ID: s.ID, Namespace: s.Namespace, Created: s.Created, Updated: s.Updated, Paused: s.Paused, Note: s.Note,
		Ended: s.Ended, Next: s.Next, Wake: s.Wake, Started: s.Started, Skipped: s.Skipped, Missed: s.Missed,
		Running: s.Running, Waiting: s.Waiting, Recent: s.Recent, NotStarted: s.NotStarted, Backfills: s.Backfills, Error: s.Error}
	out.ScheduleSpec = ScheduleSpec{Workflow: h.Workflow, Version: h.Version, Input: h.Input, Attributes: h.Attributes, Memo: h.Memo,
		When: h.When, Zone: h.Zone, Overlap: h.Overlap, From: h.From, Until: h.Until, Runs: h.Runs, Priority: h.Priority,
		Revision: h.Revision}
	if !abi.IsJSON(h.Input) { // bytes of a program, or none
		out.Input, out.Bytes = nil, base64.StdEncoding.EncodeToString(h.Input)
	}
	for _, x := range out.spans(h) {
		if *x.d != 0 {
			*x.text = abi.FormatDuration(abi.Milliseconds(*x.d))
		}
	}
	return out
}
