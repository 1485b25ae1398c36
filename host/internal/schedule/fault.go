package schedule

import "slices"

// Fault is a start that was refused and will be retried.
type Fault struct {
	Instant
	SinceMs int64 `json:"since"`
	Count   int   `json:"count"` // refusals in a row
	RetryMs int64 `json:"retry"`
}

// Backoff of starts that were refused for now.
const (
	firstRetryMs = 1000
	maxRetryMs   = 60_000
)

// retryMs returns the earliest instant of the next start, 0 if no backoff applies. A value further away than maxRetryMs
// comes from a clock that has been set back since, and is ignored.
func (f *Fault) retryMs(now int64) int64 {
	if f == nil || f.RetryMs > now+maxRetryMs {
		return 0
	}
	return f.RetryMs
}

// Refused notes that an instant cannot be started now. The start is retried with backoff, and missed once the refusals have
// lasted longer than the catch-up window. Regular instants that are not buffered are missed by Next, by the time since
// they were due.
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

// Failed notes that an instant can never be started, and lists it as missed.
func (s *State) Failed(in Instant, reason string) {
	s.advance(in)
	s.Fault, s.Error = nil, clip(reason)
	s.miss(one(in, reason))
}
