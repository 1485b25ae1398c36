package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ScheduleSpec defines a schedule: what it starts and when. Durations are duration text.
type ScheduleSpec struct {
	Workflow   string            `json:"workflow"`
	Version    uint32            `json:"version,omitempty"` // 0: the newest at each start
	Input      json.RawMessage   `json:"input,omitempty"`
	Bytes      string            `json:"input_base64,omitempty"` // in place of Input: bytes that are not JSON, in base64
	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       json.RawMessage   `json:"memo,omitempty"`
	Timeout    string            `json:"timeout,omitempty"` // of each run
	When       string            `json:"when"`              // a cron expression, @every, an instant, or ISO 8601
	Zone       string            `json:"zone,omitempty"`    // such as Europe/Berlin; UTC for ""
	Jitter     string            `json:"jitter,omitempty"`
	// Overlap says what happens to an instant while a run is in progress: skip (""), buffer-one, buffer-all, allow,
	// cancel-other or terminate-other.
	Overlap  string    `json:"overlap,omitempty"`
	CatchUp  string    `json:"catch_up,omitempty"` // the longest delay after which an instant is still started; 1d for ""
	From     time.Time `json:"from,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Runs     int64     `json:"runs,omitempty"` // the number of instants to start; no limit for 0
	Priority int       `json:"priority,omitempty"`
	// Revision is the revision of the spec. An update with a Revision requires it to be current; 0 skips the check.
	Revision uint64 `json:"revision,omitempty"`
}

// Schedule is the current state of a schedule.
type Schedule struct {
	ID string `json:"id"`
	ScheduleSpec
	Namespace  string             `json:"namespace,omitempty"`
	Created    time.Time          `json:"created"`
	Updated    time.Time          `json:"updated"`
	Paused     bool               `json:"paused"`
	Note       string             `json:"note,omitempty"` // why it is paused
	Ended      bool               `json:"ended"`          // nothing more is due
	Next       time.Time          `json:"next,omitzero"`
	Wake       time.Time          `json:"wake,omitzero"` // Next with its jitter
	Started    int64              `json:"started"`
	Skipped    int64              `json:"skipped"`
	Missed     int64              `json:"missed"`
	Running    []string           `json:"running,omitempty"` // ids of runs in progress
	Waiting    []time.Time        `json:"waiting,omitempty"` // instants that wait for a run to end
	Recent     []ScheduledRun     `json:"recent,omitempty"`
	NotStarted []ScheduleMiss     `json:"not_started,omitempty"`
	Backfills  []ScheduleBackfill `json:"backfills,omitempty"`
	Error      string             `json:"error,omitempty"` // of the newest refused start
}

// ScheduledRun is a run that a schedule started.
type ScheduledRun struct {
	Nominal time.Time `json:"nominal"`        // the instant that it was started for
	Kind    string    `json:"kind,omitempty"` // trigger or backfill; empty for a regular instant
	Run     string    `json:"run"`
	Started time.Time `json:"started"`
}

// ScheduleMiss is one or more instants that were not started.
type ScheduleMiss struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	More   bool      `json:"more,omitempty"` // there were more instants than Count
	Reason string    `json:"reason"`
	Policy bool      `json:"policy,omitempty"` // the overlap policy skipped them
}

// ScheduleBackfill is a backfill in progress.
type ScheduleBackfill struct {
	After time.Time `json:"after"`
	To    time.Time `json:"to"`
	All   bool      `json:"all,omitempty"`
}

// ScheduleInstant is an instant for which a schedule will start a run.
type ScheduleInstant struct {
	Nominal time.Time `json:"nominal"`
	Start   time.Time `json:"start"` // Nominal plus jitter
}

func schedulePath(id, rest string) string { return "/v1/schedules/" + Segment(id) + rest }

// Create creates a schedule. It returns ErrConflict if the id is taken.
func (s Schedules) Create(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
	return send[Schedule](ctx, s.c, Request{Method: http.MethodPost, Path: "/v1/schedules"}, struct {
		ID string `json:"id"`
		ScheduleSpec
	}{id, spec})
}

// Update replaces the spec of a schedule. It returns ErrConflict if spec.Revision is set and no longer current.
func (s Schedules) Update(ctx context.Context, id string, spec ScheduleSpec) (Schedule, error) {
	r := Request{Method: http.MethodPut, Path: schedulePath(id, ""), Repeatable: spec.Revision == 0}
	return send[Schedule](ctx, s.c, r, spec)
}

// Get returns the current state of a schedule.
func (s Schedules) Get(ctx context.Context, id string) (Schedule, error) {
	return get[Schedule](ctx, s.c, schedulePath(id, ""), nil)
}

// List yields all schedules, ordered by id.
func (s Schedules) List(ctx context.Context) iter.Seq2[Schedule, error] {
	return pages(func(cursor string) (Page[Schedule], error) {
		v := url.Values{}
		if cursor != "" {
			v.Set("cursor", cursor)
		}
		return get[Page[Schedule]](ctx, s.c, "/v1/schedules", v)
	})
}

// Next returns the next instants of a schedule, at most limit, which is at most 1,000.
func (s Schedules) Next(ctx context.Context, id string, limit int) ([]ScheduleInstant, error) {
	return items[ScheduleInstant](ctx, s.c, schedulePath(id, "/next"), url.Values{"limit": {strconv.Itoa(limit)}})
}

// Pause pauses a schedule until Schedules.Resume. Instants that are due in the meantime are skipped. The note is for
// people.
func (s Schedules) Pause(ctx context.Context, id, note string) (Schedule, error) {
	return s.c.noted(ctx, id, "/pause", note)
}

// Resume resumes a paused schedule with the instants that are due from now on.
func (s Schedules) Resume(ctx context.Context, id, note string) (Schedule, error) {
	return s.c.noted(ctx, id, "/resume", note)
}

func (c *Client) noted(ctx context.Context, id, action, note string) (Schedule, error) {
	return send[Schedule](ctx, c, Request{Method: http.MethodPost, Path: schedulePath(id, action), Repeatable: true}, struct {
		Note string `json:"note,omitempty"`
	}{note})
}

// Trigger starts a run of a schedule now. overlap is the policy to apply; "" is the schedule's own. It returns the id of
// the run, or "" if the start waits for another run to end.
func (s Schedules) Trigger(ctx context.Context, id, overlap string) (run string, err error) {
	t, err := send[struct {
		Run string `json:"run"`
	}](ctx, s.c, Request{Method: http.MethodPost, Path: schedulePath(id, "/trigger")}, struct {
		Overlap string `json:"overlap,omitempty"`
	}{overlap})
	return t.Run, err
}

// Backfill starts the instants of a past range: one after the other, or all of them concurrently.
func (s Schedules) Backfill(ctx context.Context, id string, from, to time.Time, all bool) (Schedule, error) {
	return send[Schedule](ctx, s.c, Request{Method: http.MethodPost, Path: schedulePath(id, "/backfill")}, struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
		All  bool      `json:"all,omitempty"`
	}{from, to, all})
}

// Delete deletes a schedule. Its runs continue.
func (s Schedules) Delete(ctx context.Context, id string) error {
	return s.c.call(ctx, Request{Method: http.MethodDelete, Path: schedulePath(id, "")}, nil)
}
