package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/store"
)

// State is the durable part of a schedule.
type State struct {
	Definition
	CreatedMs int64  `json:"created"`
	UpdatedMs int64  `json:"updated"`  // when the definition was set
	Revision  uint64 `json:"revision"` // of the definition, from 1
	Paused    bool   `json:"paused,omitempty"`
	Note      string `json:"note,omitempty"` // of the pause
	// CursorMs is the instant up to which every instant is decided: started, skipped, buffered or missed.
	CursorMs  int64      `json:"cursor"`
	Counted   int64      `json:"counted,omitempty"` // regular instants that were started, for Definition.Runs
	Started   int64      `json:"started,omitempty"` // runs, including those of triggers and backfills
	Skipped   int64      `json:"skipped,omitempty"`
	Lost      int64      `json:"lost,omitempty"`    // missed instants
	Running   []string   `json:"running,omitempty"` // runs that are not known to have ended
	Buffer    []Instant  `json:"buffer,omitempty"`
	Backfills []Backfill `json:"backfills,omitempty"`
	Recent    []Fired    `json:"recent,omitempty"`
	Missed    []Miss     `json:"missed,omitempty"`
	// Asked are triggers, durable before their starts. They start before everything else.
	Asked     []Asked `json:"asked,omitempty"`
	TriggerMs int64   `json:"trigger,omitempty"` // the instant of the newest trigger
	Fault     *Fault  `json:"refused,omitempty"` // the refused start that is being retried
	Error     string  `json:"error,omitempty"`   // of the newest start that failed

	// sought counts the searches for runs of overdue instants since the state was read. absentMs is the newest overdue
	// instant without a run.
	sought   int
	absentMs int64
}

// Instant is an instant for which the schedule starts a run.
type Instant struct {
	AtMs int64 `json:"at"`
	// Kind is the origin of the instant.
	Kind Kind `json:"kind,omitempty"`
}

// Kind is the origin of an instant.
type Kind string

// The kinds.
const (
	Regular   Kind = ""
	Triggered Kind = "trigger"
	Filled    Kind = "backfill"
)

// Backfill is a backfill in progress: the instants after AfterMs, up to ToMs.
type Backfill struct {
	AfterMs int64 `json:"after"`
	ToMs    int64 `json:"to"`
	// All starts the instants concurrently instead of one after the other.
	All bool `json:"all,omitempty"`
	// AskedMs is when the backfill was requested. Runs that were created earlier do not belong to it.
	AskedMs int64 `json:"asked,omitempty"`
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
	More   bool   `json:"more,omitempty"` // there were more instants between AtMs and LastMs than Count
	Reason string `json:"reason"`
	Skip   bool   `json:"skip,omitempty"` // skipped by the overlap policy
}

// RunID returns the id of the run of an instant. The id is in the partition of the schedule, so one host owns both.
func RunID(key store.RunKey, in Instant) string {
	mark := ""
	if in.Kind == Triggered { // keeps it apart from a regular instant
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

// Upcoming returns at most n of the next regular instants, each with the instant of its start, which includes jitter. For
// a paused schedule it returns the instants as if the schedule were resumed now.
func (s *State) Upcoming(id string, now int64, n int) (list [][2]int64) {
	after := s.CursorMs
	if s.Paused {
		after = max(after, s.due(id, now))
	}
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

// left returns how many more instants may start.
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

// Ended reports whether the schedule will start nothing more by itself.
func (s *State) Ended() bool {
	_, ok := s.after(s.CursorMs)
	return (!ok || s.left() <= 0) && len(s.Buffer)+len(s.Asked) == 0
}

// waiting returns how many starts wait for a run to end. While the schedule is paused, regular instants are not counted,
// because they also wait for Resume.
func (s *State) waiting() (n int) {
	for _, in := range s.Buffer {
		if !s.held(in) {
			n++
		}
	}
	return n
}

// held reports whether a buffered instant waits for Resume.
func (s *State) held(in Instant) bool { return s.Paused && in.Kind == Regular }

// Wake returns the instant of the next action, store.NoWake if only an event can cause one.
func (s *State) Wake(id string, now int64) int64 {
	wake := store.NoWake
	retry := s.Fault.retryMs(now)
	earlier := func(at int64) {
		at = max(at, retry)
		if wake == store.NoWake || at < wake {
			wake = at
		}
	}
	idle := len(s.Running) == 0
	if len(s.Asked) > 0 || s.waiting() > 0 && idle {
		earlier(now)
	}
	if len(s.Backfills) > 0 && (s.Backfills[0].All || idle && s.waiting() == 0) {
		earlier(now)
	}
	if at, ok := s.after(s.CursorMs); ok && !s.Paused && s.left() > 0 {
		earlier(s.fire(id, at))
	}
	return wake
}

// Do is the next action.
type Do struct {
	// Find is an overdue instant whose run must be looked up: a crashed host may have started it without committing that. The
	// caller reports the result with State.Found or State.Absent.
	Find  *Instant
	Start *Instant // to start; the caller reports with State.Fired, Failed or Refused
	Wait  *Instant // to buffer until the cancelled runs have ended; reported with State.Replace, Failed or Refused
	// Cancel and Terminate are runs to end before that.
	Cancel, Terminate []string
}

// Next decides the next action, false if there is none. s.Running must be current.
func (s *State) Next(id string, now int64) (do Do, ok bool) {
	if s.Fault.retryMs(now) > now {
		return do, false
	}
	if len(s.Asked) > 0 {
		return asked(s.Asked[0], s.Running), true
	}
	idle := len(s.Running) == 0
	for _, in := range s.Buffer {
		if idle && !s.held(in) {
			return Do{Start: &in}, true
		}
	}
	for !s.Paused && s.left() > 0 {
		at, has := s.after(s.CursorMs)
		if !has {
			break
		}
		fire, in := s.fire(id, at), Instant{AtMs: at}
		switch {
		case fire > now:
			return s.fill(idle)
		case now-fire <= s.CatchUpMs:
			if do, ok := s.overlap(in, s.Overlap); ok {
				return do, true
			}
		case s.sought < maxStarts && s.absentMs < at:
			return Do{Find: &in}, true
		case s.Fault != nil && s.Fault.Instant == in:
			s.Failed(in, s.Error)
		default:
			s.catchUp(id, at, now)
		}
	}
	return s.fill(idle)
}

// Absent notes that an overdue instant has no run.
func (s *State) Absent(in Instant) {
	s.sought++
	s.absentMs = in.AtMs
}

// maxCounted bounds the count of instants missed in a row: a few hours at one a second.
const maxCounted = 10_000

// catchUp marks instants that were due too long ago as missed, beginning with at.
func (s *State) catchUp(id string, at, now int64) {
	m := Miss{AtMs: at, Reason: fmt.Sprintf("the host was not there within %s", milliseconds(s.CatchUpMs))}
	for {
		m.LastMs, m.Count, s.CursorMs = at, m.Count+1, at
		next, ok := s.after(at)
		if !ok || now-s.fire(id, next) <= s.CatchUpMs || s.sought < maxStarts { // one at a time while they may have runs
			break
		}
		at = next
		if m.Count == maxCounted { // continue behind the uncounted instants
			m.More, s.CursorMs = true, max(at, now-s.CatchUpMs-s.JitterMs-1)
			m.LastMs = s.CursorMs
			break
		}
	}
	s.miss(m)
}

// overlap applies an overlap policy to an instant. It reports false if no action follows.
func (s *State) overlap(in Instant, policy Overlap) (do Do, ok bool) {
	if len(s.Running) == 0 && s.waiting() == 0 || policy == AllowAll {
		return Do{Start: &in}, true
	}
	switch policy {
	case TerminateOther:
		return Do{Start: &in, Terminate: slices.Clone(s.Running)}, true
	case CancelOther:
		return Do{Wait: &in, Cancel: slices.Clone(s.Running)}, true
	case BufferAll:
		s.buffer(in)
	case BufferOne:
		if s.waiting() > 0 {
			s.skip(in)
		} else {
			s.buffer(in)
		}
	default:
		s.skip(in)
	}
	return do, false
}

// Replace buffers an instant in place of those that wait, which are skipped. The live runs were asked to end.
func (s *State) Replace(in Instant) {
	for _, before := range slices.Clone(s.Buffer) {
		if !s.held(before) {
			s.unbuffer(before)
			s.skip(before)
		}
	}
	s.Fault, s.Error = nil, ""
	s.buffer(in)
}

// unbuffer removes an instant from the buffer and reports whether it was there.
func (s *State) unbuffer(in Instant) bool {
	i := slices.Index(s.Buffer, in)
	if i >= 0 {
		s.Buffer = slices.Delete(s.Buffer, i, i+1)
	}
	return i >= 0
}

// advance notes that an instant is decided.
func (s *State) advance(in Instant) {
	switch {
	case s.unbuffer(in):
	case in.Kind == Regular:
		s.CursorMs = max(s.CursorMs, in.AtMs)
	case in.Kind == Triggered:
		s.Asked = slices.DeleteFunc(s.Asked, func(a Asked) bool { return a.Instant == in })
	case len(s.Backfills) > 0:
		s.Backfills[0].AfterMs = in.AtMs
	}
}

// buffer makes an instant wait for a run to end.
func (s *State) buffer(in Instant) {
	if len(s.Buffer)+len(s.Asked) >= MaxBuffered {
		s.advance(in)
		s.miss(one(in, fmt.Sprintf("%d starts wait already, the limit", MaxBuffered)))
		return
	}
	s.advance(in)
	s.Buffer = append(s.Buffer, in)
}

// skip records that the overlap policy skips an instant.
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

// miss lists instants that are not started. It merges them with the newest entry if the reason is the same.
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

// Fired notes that the run of an instant is durable; live reports that it has not ended. A run that is in Recent is not
// counted again: the clock was set back.
func (s *State) Fired(in Instant, run string, live bool, now int64) {
	s.advance(in)
	s.Fault, s.Error = nil, ""
	s.RunLives(run, live)
	if slices.ContainsFunc(s.Recent, func(f Fired) bool { return f.Run == run }) {
		return
	}
	s.Started++
	if in.Kind == Regular {
		s.Counted++
	}
	s.Recent = append(s.Recent, Fired{in, run, now})
	s.Recent = s.Recent[max(len(s.Recent)-maxRecent, 0):]
}

// RunLives notes whether a run lives, and reports whether that is a change.
func (s *State) RunLives(run string, live bool) bool {
	known := slices.Contains(s.Running, run)
	switch {
	case live && !known:
		s.Running = append(s.Running, run)
		s.Running = s.Running[max(len(s.Running)-maxRunning, 0):]
	case !live && known:
		s.Running = slices.DeleteFunc(s.Running, func(id string) bool { return id == run })
	}
	return live != known
}

// clip shortens an error text to maxErrorBytes.
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
