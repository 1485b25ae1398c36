// Package schedule decides when a schedule starts runs, and has it done.
//
// A State is what is durable of one schedule: its definition, and how far it has come. Its methods are pure: given the time and
// the runs that have not ended, Next says what is to be done. A Keeper reads and writes states, and starts the runs.
//
//	timer of the shard  ->  Keeper.Due  ->  State.Next  ->  a run is started, durably
//	                                    ->  the state is committed, with the instant of its next wake
//	run has ended       ->  Keeper.Ended (a command)  ->  what waits for it is started
//
// A start and the commit of the state are two commits. Between them a crash may come: then the start is made again, for the same
// instant, under the same id. The run that is there says that it is of this schedule and instant, and counts as started; that
// holds for an instant that is not made up for any more, too. So one instant has one run, whatever crashes, and none is left out.
// A trigger, whose instant follows from no rule, is committed before its start.
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
	// MaxIDBytes bounds the id of a schedule. That of a run is made of it, and has at most 128 bytes.
	MaxIDBytes = 96
	// MaxInputBytes bounds the input: it is written again with each firing.
	MaxInputBytes = 64 << 10
	// MaxNoteBytes bounds the note of a pause.
	MaxNoteBytes = 1024
	// MaxBuffered bounds the instants that wait for the end of a run: those beyond it are missed.
	MaxBuffered = 1000
	// MaxBackfills bounds the ranges that are being filled at a time.
	MaxBackfills = 10
	// MaxFill bounds the instants of a range that is filled, which two months of minutes have not. A wrong year would start
	// millions of runs.
	MaxFill = 100_000
	// MinCatchUp is the shortest time for which an instant is made up for: a host that starts needs a moment.
	MinCatchUp = 10 * time.Second
	// DefaultCatchUp is the time for which an instant is made up for, unless a schedule says otherwise: after a weekend nobody
	// wants three nightly reports, but last night's.
	DefaultCatchUp = 24 * time.Hour
	// maxRunning is how many runs that have not ended are remembered, the newest ones.
	maxRunning = 100
	// maxRecent and maxMissed are how many runs and misses a schedule lists, the newest ones.
	maxRecent = 10
	maxMissed = 20
	// maxErrorBytes bounds the text of an error that is kept.
	maxErrorBytes = 500
)

// Overlap says what becomes of an instant when a run of the schedule has not ended.
type Overlap string

// The policies.
const (
	Skip           Overlap = "skip"            // nothing is started
	BufferOne      Overlap = "buffer-one"      // one start waits for the end of the run, others are skipped
	BufferAll      Overlap = "buffer-all"      // all starts wait, one after the other
	AllowAll       Overlap = "allow"           // it is started beside the others
	CancelOther    Overlap = "cancel-other"    // the run is cancelled, and the start waits for its end
	TerminateOther Overlap = "terminate-other" // the run is terminated
)

// Overlaps are all policies.
var Overlaps = []Overlap{Skip, BufferOne, BufferAll, AllowAll, CancelOther, TerminateOther}

// Definition is what somebody has said about a schedule.
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
	UntilMs    int64             `json:"until,omitempty"`    // nothing is due after; 0 = for ever
	Runs       int64             `json:"runs,omitempty"`     // so many instants are started; 0 = any number
	Priority   int               `json:"priority,omitempty"` // of each run among those that wait for a slot

	times *cron.Times // of When and Zone, in a State
}

// CheckID returns what is wrong with the id of a schedule.
func CheckID(id string) error {
	if len(id) > MaxIDBytes {
		return abi.Errorf(abi.InvalidArgument, "the id of a schedule has at most %d bytes, got %d", MaxIDBytes, len(id))
	}
	if abi.CheckRunID(id) != nil {
		return abi.Errorf(abi.InvalidArgument, "the id of a schedule has 1 to %d of A-Z a-z 0-9 . _ : ~ -, got %q", MaxIDBytes, id)
	}
	return nil
}

// Check fills in what is left out, and returns what is wrong with a definition, as an *abi.Error.
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

// CheckOverlap returns what is wrong with a policy.
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

// instant writes an instant as people and requests give it.
func instant(unixMs int64) string { return abi.TimeOf(unixMs).Format(time.RFC3339Nano) }

func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// encode returns the data of a schedule.
func (s *State) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, numbers and bytes always encode
	}
	return b
}

// decode reads the data of a schedule.
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
