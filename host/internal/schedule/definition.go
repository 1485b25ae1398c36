// Package schedule decides when schedules start runs, and starts them.
//
// A State is the durable part of one schedule: its definition and its progress. Its methods are pure: Next decides the
// next action from the time and the runs that have not ended. A Keeper reads and writes states and starts the runs.
//
//	timer of the shard  ->  Keeper.Due  ->  State.Next  ->  the run is started, durably
//	                                    ->  the state is committed, with its next wake
//	run has ended       ->  Keeper.Changed (a command)  ->  the waiting start begins
//
// A start and the commit of the state are two commits. After a crash between them, the start is repeated for the same
// instant, under the same id. It finds the existing run, which names its schedule and instant, and counts it as started.
// That also works for instants past the catch-up window. So each instant has exactly one run, whatever crashes. The
// instant of a trigger follows from no rule, so it is committed before its start.
package schedule

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/cron"
)

const (
	// MaxIDBytes bounds the id of a schedule. The ids of its runs contain it and have at most 128 bytes.
	MaxIDBytes = 96
	// MaxInputBytes bounds the input, which each firing writes again.
	MaxInputBytes = 64 << 10
	// MaxNoteBytes bounds the note of a pause.
	MaxNoteBytes = 1024
	// MaxBuffered bounds the instants that wait for a run to end. Further instants are missed.
	MaxBuffered = 1000
	// MaxBackfills bounds the backfills in progress of one schedule.
	MaxBackfills = 10
	// MaxFill bounds the instants of one backfill: more than two months of minutes have. A mistyped year would otherwise start
	// millions of runs.
	MaxFill = 100_000
	// MinCatchUp is the shortest catch-up window: a host needs a moment to start.
	MinCatchUp = 10 * time.Second
	// DefaultCatchUp is the default catch-up window: an instant is started up to this long after it was due. After a weekend,
	// users want last night's report, not three of them.
	DefaultCatchUp = 24 * time.Hour
	// maxRunning bounds the list of runs that have not ended. The newest are kept.
	maxRunning = 100
	// maxRecent and maxMissed bound the lists of recent runs and of misses. The newest are kept.
	maxRecent = 10
	maxMissed = 20
	// maxErrorBytes bounds the text of a stored error.
	maxErrorBytes = 500
)

// Overlap says what happens to an instant while another run of the schedule has not ended.
type Overlap string

// The overlap policies.
const (
	Skip           Overlap = "skip"            // the instant is skipped
	BufferOne      Overlap = "buffer-one"      // one start waits for the run to end; further instants are skipped
	BufferAll      Overlap = "buffer-all"      // all starts wait and begin one after the other
	AllowAll       Overlap = "allow"           // the run starts concurrently
	CancelOther    Overlap = "cancel-other"    // the run is cancelled, and the start waits for it to end
	TerminateOther Overlap = "terminate-other" // the run is terminated, and the start begins
)

// Overlaps lists all policies.
var Overlaps = []Overlap{Skip, BufferOne, BufferAll, AllowAll, CancelOther, TerminateOther}

// Definition is the part of a schedule that users set.
type Definition struct {
	Workflow   string            `json:"workflow"`
	Version    uint32            `json:"version,omitempty"` // 0 = the latest at the start of each run
	Input      []byte            `json:"input,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       []byte            `json:"memo,omitempty"`    // of each run
	TimeoutMs  int64             `json:"timeout,omitempty"` // of each run
	When       string            `json:"when"`
	Zone       string            `json:"zone,omitempty"`
	JitterMs   int64             `json:"jitter,omitempty"`
	Overlap    Overlap           `json:"overlap"`
	CatchUpMs  int64             `json:"catch_up"`
	FromMs     int64             `json:"from,omitempty"`     // nothing is due before
	UntilMs    int64             `json:"until,omitempty"`    // nothing is due after; 0 = no end
	Runs       int64             `json:"runs,omitempty"`     // the number of instants to start; 0 = no limit
	Priority   int               `json:"priority,omitempty"` // of each run, in the queue for a slot

	times *cron.Times // of When and Zone, in a State
}

// CheckID returns an error if the id of a schedule is invalid.
func CheckID(id string) error {
	if len(id) > MaxIDBytes {
		return abi.Errorf(abi.InvalidArgument, "the id of a schedule has at most %d bytes, got %d", MaxIDBytes, len(id))
	}
	if abi.CheckRunID(id) != nil {
		return abi.Errorf(abi.InvalidArgument, "the id of a schedule has 1 to %d of A-Z a-z 0-9 . _ : ~ -, got %q", MaxIDBytes, id)
	}
	return nil
}

// Check fills in defaults and returns an *abi.Error if the definition is invalid.
func (d *Definition) Check() error {
	bad := func(format string, args ...any) error { return abi.Errorf(abi.InvalidArgument, format, args...) }
	if d.Overlap == "" {
		d.Overlap = Skip
	}
	if d.CatchUpMs == 0 {
		d.CatchUpMs = DefaultCatchUp.Milliseconds()
	}
	if err := abi.CheckWorkflow(d.Workflow); err != nil {
		return err
	}
	if _, err := cron.Parse(d.When, d.Zone); err != nil {
		return bad("%v", err)
	}
	if err := CheckOverlap(d.Overlap); err != nil {
		return err
	}
	if len(d.Attributes) > abi.MaxAttributes {
		return bad("%d attributes, the limit is %d", len(d.Attributes), abi.MaxAttributes)
	}
	for k, v := range d.Attributes {
		if err := abi.CheckAttribute(k, v); err != nil {
			return err
		}
	}
	if len(d.Memo) > 0 {
		memo, err := abi.CheckMemo(d.Memo)
		if err != nil {
			return err
		}
		d.Memo = memo
		if string(memo) == "null" {
			d.Memo = nil
		}
	}
	switch {
	case len(d.Input) > MaxInputBytes:
		return abi.Errorf(abi.TooLarge, "the input of a schedule has %d bytes, the limit is %d", len(d.Input), MaxInputBytes)
	case d.TimeoutMs < 0 || d.JitterMs < 0 || d.Runs < 0:
		return bad("timeout, jitter and runs must not be negative, got %s, %s and %d", milliseconds(d.TimeoutMs),
			milliseconds(d.JitterMs), d.Runs)
	case d.JitterMs > 24*time.Hour.Milliseconds():
		return bad("the jitter must be at most 24h, got %s", milliseconds(d.JitterMs))
	case d.CatchUpMs < MinCatchUp.Milliseconds():
		return bad("the catch-up window must be at least %v, got %s", MinCatchUp, milliseconds(d.CatchUpMs))
	case d.UntilMs != 0 && d.UntilMs < d.FromMs:
		return bad("the schedule ends at %s, before it begins at %s", instant(d.UntilMs), instant(d.FromMs))
	}
	return nil
}

// CheckOverlap returns an error if a policy is unknown.
func CheckOverlap(o Overlap) error {
	var names []string
	for _, x := range Overlaps {
		if o == x {
			return nil
		}
		names = append(names, string(x))
	}
	return abi.Errorf(abi.InvalidArgument, "the overlap policy must be one of %s, got %q", strings.Join(names, ", "), o)
}

// instant formats an instant as RFC 3339, as requests have it.
func instant(unixMs int64) string { return abi.TimeOf(unixMs).Format(time.RFC3339Nano) }

func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// encode returns the schedule as stored.
func (s *State) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, numbers and bytes always encode
	}
	return b
}

// decode reads what encode wrote.
func decode(data []byte) (*State, error) {
	s := &State{}
	err := json.Unmarshal(data, s)
	if err == nil {
		s.times, err = cron.Parse(s.When, s.Zone)
	}
	if err != nil {
		return nil, fmt.Errorf("its data cannot be read: %w", err)
	}
	return s, nil
}
