package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/cron"
	"github.com/wfhost/wfhost/store"
)

// State is what is durable of a schedule.
type State struct {
	Definition
	CreatedMs int64  `json:"created"`
	UpdatedMs int64  `json:"updated"` // the definition
	Paused    bool   `json:"paused,omitempty"`
	Note      string `json:"note,omitempty"` // of the pause
	// CursorMs is the instant up to which everything is decided: started, skipped, buffered or missed.
	CursorMs  int64      `json:"cursor"`
	Counted   int64      `json:"counted,omitempty"` // instants that were started, for Definition.Runs
	Started   int64      `json:"started,omitempty"` // runs, also of triggers and backfills
	Skipped   int64      `json:"skipped,omitempty"`
	Lost      int64      `json:"lost,omitempty"`    // instants that were missed
	Running   []string   `json:"running,omitempty"` // runs that have not ended, as far as is known
	Buffer    []Instant  `json:"buffer,omitempty"`
	Backfills []Backfill `json:"backfills,omitempty"`
	Recent    []Fired    `json:"recent,omitempty"`
	Missed    []Miss     `json:"missed,omitempty"`
	// Of a start that was refused and is tried again: since when, when, and why.
	FaultMs int64  `json:"fault,omitempty"`
	Faults  int    `json:"faults,omitempty"` // in a row
	RetryMs int64  `json:"retry,omitempty"`
	Error   string `json:"error,omitempty"` // of the newest start that failed

	times *cron.Times
}

// Instant is one for which a run is started.
type Instant struct {
	AtMs int64 `json:"at"`
	// Kind is where it comes from.
	Kind Kind `json:"kind,omitempty"`
}

// Kind is where an instant comes from.
type Kind string

// The kinds.
const (
	Regular   Kind = ""
	Triggered Kind = "trigger"
	Filled    Kind = "backfill"
)

// Backfill is a range that is being filled: the instants after AfterMs, up to ToMs.
type Backfill struct {
	AfterMs int64 `json:"after"`
	ToMs    int64 `json:"to"`
	// All starts them beside each other, otherwise one after the other.
	All bool `json:"all,omitempty"`
}

// Fired is a run that was started.
type Fired struct {
	Instant
	Run       string `json:"run"`
	StartedMs int64  `json:"started"`
}

// Miss is one or more instants in a row that were not started.
type Miss struct {
	AtMs   int64  `json:"at"`
	LastMs int64  `json:"last"`
	Count  int64  `json:"count"`
	More   bool   `json:"more,omitempty"` // there were more between them than were counted
	Reason string `json:"reason"`
	Skip   bool   `json:"skip,omitempty"` // by the overlap policy
}

// RunID returns the id of the run of an instant. It belongs to the partition of the schedule, so that the host that owns the
// schedule owns its runs.
func RunID(key store.RunKey, in Instant) string {
	mark := ""
	if in.Kind == Triggered { // so that it is not that of a regular one
		mark = "t"
	}
	at := time.UnixMilli(in.AtMs).UTC().Format("2006-01-02T15:04:05.999Z")
	p := key.Partition()
	for n := int64(0); ; n++ {
		id := key.ID + "~" + mark + at + "~" + strconv.FormatInt(n, 36)
		if (store.RunKey{Namespace: key.Namespace, ID: id}).Partition() == p {
			return id
		}
	}
}

// after returns the first regular instant after another one, false if there is none.
func (s *State) after(ms int64) (int64, bool) {
	t, ok := s.times.Next(time.UnixMilli(max(ms, s.FromMs-1)))
	if !ok || s.UntilMs != 0 && t.UnixMilli() > s.UntilMs {
		return 0, false
	}
	return t.UnixMilli(), true
}

// Upcoming returns at most n regular instants that come after one, as they are and as they are started.
func (s *State) Upcoming(id string, after int64, n int) (list [][2]int64) {
	after = max(after, s.CursorMs)
	for left := s.left(); len(list) < n && left > 0; left-- {
		at, ok := s.after(after)
		if !ok {
			break
		}
		list = append(list, [2]int64{at, s.fire(id, at)})
		after = at
	}
	return list
}

// left returns how many instants may be started still.
func (s *State) left() int64 {
	if s.Runs == 0 {
		return 1 << 62
	}
	waiting := int64(0)
	for _, in := range s.Buffer {
		if in.Kind == Regular {
			waiting++
		}
	}
	return s.Runs - s.Counted - waiting
}

// fire returns when the run of an instant is started: later by the jitter, which depends on the schedule and the instant
// alone, and comes before the next instant.
func (s *State) fire(id string, at int64) int64 {
	if s.JitterMs == 0 {
		return at
	}
	span := s.JitterMs + 1
	if next, ok := s.after(at); ok {
		span = min(span, next-at)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(id), uint64(at)))
	return at + int64(binary.BigEndian.Uint64(sum[:])%uint64(span))
}

// Ended reports whether the schedule will start nothing any more by itself.
func (s *State) Ended() bool {
	_, ok := s.after(s.CursorMs)
	return (!ok || s.left() <= 0) && len(s.Buffer) == 0
}

// Wake returns the instant at which there is something to do, store.NoWake if only an event can bring that.
func (s *State) Wake(id string, now int64) int64 {
	wake := store.NoWake
	earlier := func(at int64) {
		if at = max(at, s.RetryMs); wake == store.NoWake || at < wake {
			wake = at
		}
	}
	idle := len(s.Running) == 0
	if len(s.Buffer) > 0 && idle && !s.Paused {
		earlier(now)
	}
	if len(s.Backfills) > 0 && (s.Backfills[0].All || idle && len(s.Buffer) == 0) {
		earlier(now)
	}
	if at, ok := s.after(s.CursorMs); ok && !s.Paused && s.left() > 0 {
		earlier(s.fire(id, at))
	}
	return wake
}

// Do is what is to be done next.
type Do struct {
	Start     *Instant // it is started, and then State.Fired, Failed or Refused says what came of it
	Cancel    []string // runs that are cancelled
	Terminate []string // runs that are terminated, before the start
}

// maxCounted is how many instants that were missed in a row are counted: those of some hours, one a second.
const maxCounted = 10_000

// Next decides what is to be done, false if nothing is. Running are runs that have not ended, as of now.
func (s *State) Next(id string, now int64) (do Do, ok bool) {
	if s.RetryMs > now {
		return do, false
	}
	idle := len(s.Running) == 0
	if len(s.Buffer) > 0 && idle && !s.Paused {
		return Do{Start: &s.Buffer[0]}, true
	}
	for !s.Paused && s.left() > 0 {
		at, has := s.after(s.CursorMs)
		if !has {
			break
		}
		fire := s.fire(id, at)
		if fire > now {
			break
		}
		if s.FaultMs == 0 && now-fire > s.CatchUpMs {
			s.catchUp(id, at, now)
			continue
		}
		if do, ok := s.overlap(Instant{AtMs: at}); ok {
			return do, true
		}
	}
	if len(s.Backfills) > 0 {
		return s.fill(idle)
	}
	return do, false
}

// catchUp misses the instants that were due too long ago, the first one of which is given.
func (s *State) catchUp(id string, at, now int64) {
	m := Miss{AtMs: at, Reason: fmt.Sprintf("the host was not there within %s", milliseconds(s.CatchUpMs))}
	for {
		m.LastMs, m.Count, s.CursorMs = at, m.Count+1, at
		next, ok := s.after(at)
		if !ok || now-s.fire(id, next) <= s.CatchUpMs {
			break
		}
		if at = next; m.Count == maxCounted { // go on behind those that nobody counts
			m.More, s.CursorMs = true, max(at, now-s.CatchUpMs-s.JitterMs-1)
			m.LastMs = s.CursorMs
			break
		}
	}
	s.miss(m)
}

// overlap decides about a regular instant. It reports false if it is decided without anything to do.
func (s *State) overlap(in Instant) (do Do, ok bool) {
	if len(s.Running) == 0 && len(s.Buffer) == 0 || s.Overlap == AllowAll {
		return Do{Start: &in}, true
	}
	switch s.Overlap {
	case TerminateOther:
		return Do{Start: &in, Terminate: slices.Clone(s.Running)}, true
	case CancelOther:
		for _, before := range s.Buffer {
			s.skip(before)
		}
		s.Buffer = nil
		s.buffer(in)
		return Do{Cancel: slices.Clone(s.Running)}, true
	case BufferAll:
		s.buffer(in)
	case BufferOne:
		if len(s.Buffer) > 0 {
			s.skip(in)
		} else {
			s.buffer(in)
		}
	default:
		s.skip(in)
	}
	return do, false
}

// fill decides about the first range that is being filled.
func (s *State) fill(idle bool) (do Do, ok bool) {
	for len(s.Backfills) > 0 {
		b := &s.Backfills[0]
		if !b.All && (!idle || len(s.Buffer) > 0) {
			return do, false
		}
		if t, has := s.times.Next(time.UnixMilli(b.AfterMs)); has && t.UnixMilli() <= b.ToMs {
			return Do{Start: &Instant{AtMs: t.UnixMilli(), Kind: Filled}}, true
		}
		s.Backfills = s.Backfills[1:]
	}
	return do, false
}

// Trigger decides about an instant that somebody asks for, under a policy. It reports whether it is started now, or waits.
func (s *State) Trigger(in Instant, policy Overlap) (do Do, waits bool) {
	before := s.Overlap
	defer func() { s.Overlap = before }()
	s.Overlap = policy
	skipped, missed := s.Skipped, s.Lost
	do, _ = s.overlap(in)
	return do, do.Start == nil && s.Skipped == skipped && s.Lost == missed
}

// advance notes that an instant is decided.
func (s *State) advance(in Instant) {
	if len(s.Buffer) > 0 && s.Buffer[0] == in {
		s.Buffer = s.Buffer[1:]
		return
	}
	switch in.Kind {
	case Regular:
		s.CursorMs = max(s.CursorMs, in.AtMs)
	case Filled:
		s.Backfills[0].AfterMs = in.AtMs
	}
}

// buffer has an instant wait for the end of a run.
func (s *State) buffer(in Instant) {
	if len(s.Buffer) >= MaxBuffered {
		s.advance(in)
		s.miss(one(in, fmt.Sprintf("%d starts wait already, the limit", MaxBuffered)))
		return
	}
	s.advance(in)
	s.Buffer = append(s.Buffer, in)
}

// skip leaves an instant out by the overlap policy.
func (s *State) skip(in Instant) {
	m := one(in, "a run had not ended")
	if len(s.Running) > 0 {
		m.Reason = fmt.Sprintf("run %s had not ended", s.Running[len(s.Running)-1])
	}
	m.Skip = true
	if in.Kind == Regular {
		s.CursorMs = max(s.CursorMs, in.AtMs)
	}
	s.miss(m)
}

func one(in Instant, reason string) Miss {
	return Miss{AtMs: in.AtMs, LastMs: in.AtMs, Count: 1, Reason: clip(reason)}
}

// miss lists instants that are not started.
func (s *State) miss(m Miss) {
	if m.Skip {
		s.Skipped += m.Count
	} else {
		s.Lost += m.Count
	}
	if n := len(s.Missed); n > 0 && s.Missed[n-1].Reason == m.Reason && s.Missed[n-1].LastMs < m.AtMs {
		last := &s.Missed[n-1]
		last.LastMs, last.Count, last.More = m.LastMs, last.Count+m.Count, last.More || m.More
		return
	}
	s.Missed = append(s.Missed, m)
	s.Missed = s.Missed[max(len(s.Missed)-maxMissed, 0):]
}

// Fired notes that the run of an instant is durable. live says that it has not ended.
func (s *State) Fired(in Instant, run string, live bool, now int64) {
	s.advance(in)
	s.FaultMs, s.Faults, s.RetryMs, s.Error = 0, 0, 0, ""
	s.Started++
	if in.Kind == Regular {
		s.Counted++
	}
	if live && !slices.Contains(s.Running, run) {
		s.Running = append(s.Running, run)
		s.Running = s.Running[max(len(s.Running)-maxRunning, 0):]
	}
	s.Recent = append(s.Recent, Fired{in, run, now})
	s.Recent = s.Recent[max(len(s.Recent)-maxRecent, 0):]
}

// Failed notes that an instant cannot be started: it is missed.
func (s *State) Failed(in Instant, reason string) {
	s.advance(in)
	s.FaultMs, s.Faults, s.RetryMs, s.Error = 0, 0, 0, clip(reason)
	s.miss(one(in, reason))
}

// The back-off of starts that are refused for now.
const (
	firstRetryMs = 1000
	maxRetryMs   = 60_000
)

// Refused notes that an instant cannot be started now. It is tried again with a back-off, and missed when that has gone on for
// longer than the catch-up window.
func (s *State) Refused(in Instant, reason string, now int64) {
	if s.FaultMs == 0 {
		s.FaultMs = now
	}
	if now-s.FaultMs > s.CatchUpMs {
		s.Failed(in, reason)
		return
	}
	s.RetryMs = now + int64(min(firstRetryMs<<min(s.Faults, 10), maxRetryMs))
	s.Faults++
	s.Error = clip(reason)
}

// RunEnded notes that a run has ended, and reports whether that is news.
func (s *State) RunEnded(run string) bool {
	n := len(s.Running)
	s.Running = slices.DeleteFunc(s.Running, func(id string) bool { return id == run })
	return len(s.Running) < n
}

// clip cuts the text of an error that is kept.
func clip(text string) string {
	if len(text) <= maxErrorBytes {
		return text
	}
	text = text[:maxErrorBytes]
	for !utf8.ValidString(text) && text != "" {
		text = text[:len(text)-1]
	}
	return text + "…"
}
