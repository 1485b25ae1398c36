package schedule

import "slices"

// Fault is a start that was refused, and is tried again.
type Fault struct {
	Instant
	SinceMs int64 `json:"since"`
	Count   int   `json:"count"` // refusals in a row
	RetryMs int64 `json:"retry"`
}

// The back-off of starts that are refused for now.
const (
	firstRetryMs = 1000
	maxRetryMs   = 60_000
)

// retryMs returns the instant before which nothing is started, since a start was refused; 0 if there is none. One that is further
// away than a back-off was noted before the clock was set back.
func (f *Fault) retryMs(now int64) int64 {
	if f == nil || f.RetryMs > now+maxRetryMs {
		return 0
	}
	return f.RetryMs
}

// Refused notes that an instant cannot be started now. It is tried again with a back-off, and missed when that has gone on for
// longer than the catch-up window: for a regular instant, Next sees how long ago it was due.
func (s *State) Refused(in Instant, reason string, now int64) {
	f := s.Fault
	if f == nil || f.Instant != in || f.SinceMs > now {
		f = &Fault{Instant: in, SinceMs: now}
	}
	if now-f.SinceMs > s.CatchUpMs && (in.Kind != Regular || slices.Contains(s.Buffer, in)) {
		s.Failed(in, reason)
		return
	}
	s.Error = clip(reason)
	s.Fault = &Fault{in, f.SinceMs, f.Count + 1, now + int64(min(firstRetryMs<<min(f.Count, 10), maxRetryMs))}
}

// Failed notes that an instant cannot be started: it is missed.
func (s *State) Failed(in Instant, reason string) {
	s.advance(in)
	s.Fault, s.Error = nil, clip(reason)
	s.miss(one(in, reason))
}
