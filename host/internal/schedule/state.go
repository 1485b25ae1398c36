package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/store"
)

// State is what is durable of a schedule.
type State struct {
	Definition
	CreatedMs int64  `json:"created"`
	UpdatedMs int64  `json:"updated"`  // the definition
	Revision  uint64 `json:"revision"` // of the definition: 1 is the first one
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
	// Asked are triggers whose runs are started before everything else. They are durable before the starts.
	Asked     []Asked `json:"asked,omitempty"`
	TriggerMs int64   `json:"trigger,omitempty"` // the instant of the newest trigger
	Fault     *Fault  `json:"refused,omitempty"` // of a start that was refused and is tried again
	Error     string  `json:"error,omitempty"`   // of the newest start that failed

	// Runs of overdue instants that were looked for since the state was read, and the newest instant without one.
	sought   int
	absentMs int64
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
	// AskedMs is when somebody asked for it: runs that were created earlier are none of its.
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

// Upcoming returns at most n regular instants that come next, as they are and as they are started. Of a paused schedule they are
// those that would come next if it were resumed now.
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

// Ended reports whether the schedule will start nothing any more by itself.
func (s *State) Ended() bool {
	_, ok := s.after(s.CursorMs)
	return (!ok || s.left() <= 0) && len(s.Buffer)+len(s.Asked) == 0
}

// waiting returns how many starts wait for the end of a run. Those of regular instants do not count while the schedule is paused:
// they wait for its end, too.
func (s *State) waiting() (n int) {
	for _, in := range s.Buffer {
		if !s.held(in) {
			n++
		}
	}
	return n
}

// held reports whether an instant that waits does so for the end of a pause.
func (s *State) held(in Instant) bool { return s.Paused && in.Kind == Regular }

// Wake returns the instant at which there is something to do, store.NoWake if only an event can bring that.
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

// Do is what is to be done next.
type Do struct {
	// Find is an instant that is overdue: State.Fired or Absent says whether it has a run. A host that crashed may have started it
	// and not have committed that.
	Find  *Instant
	Start *Instant // it is started, and then State.Fired, Failed or Refused says what came of it
	Wait  *Instant // it waits for the end of the runs that are cancelled: State.Replace, or Failed or Refused
	// The runs that are cancelled, or terminated before the start.
	Cancel, Terminate []string
}

// Next decides what is to be done, false if nothing is. Running are runs that have not ended, as of now.
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

// maxCounted is how many instants that were missed in a row are counted: those of some hours, one a second.
const maxCounted = 10_000

// catchUp misses the instants that were due too long ago, the first one of which is given.
func (s *State) catchUp(id string, at, now int64) {
	m := Miss{AtMs: at, Reason: fmt.Sprintf("the host was not there within %s", milliseconds(s.CatchUpMs))}
	for {
		m.LastMs, m.Count, s.CursorMs = at, m.Count+1, at
		next, ok := s.after(at)
		if !ok || now-s.fire(id, next) <= s.CatchUpMs || s.sought < maxStarts { // one by one, while they may have runs
			break
		}
		at = next
		if m.Count == maxCounted { // go on behind those that nobody counts
			m.More, s.CursorMs = true, max(at, now-s.CatchUpMs-s.JitterMs-1)
			m.LastMs = s.CursorMs
			break
		}
	}
	s.miss(m)
}

// overlap decides about an instant by a policy. It reports false if it is decided without anything to do.
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

// Replace has an instant wait in place of those that waited: the runs that go on were asked to end.
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

// unbuffer takes an instant out of those that wait, and reports whether it was there.
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

// buffer has an instant wait for the end of a run.
func (s *State) buffer(in Instant) {
	if len(s.Buffer)+len(s.Asked) >= MaxBuffered {
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

// Fired notes that the run of an instant is durable. live says that it has not ended. A run that is listed already is not counted
// again: the clock was set back.
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

// RunLives notes whether a run has not ended, and reports whether that is news.
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
