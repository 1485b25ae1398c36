package run

// Faults counts consecutive faults of the host in a run's activations.
type Faults struct {
	Count   uint32
	RetryMs int64 // no activation before this instant
}

// maxFaults is how many consecutive faults make a run stuck.
const maxFaults = 3

// faultDelayMs is the delay of an activation after the first fault of the host. After the second fault the delay is
// eight times as long. By then a stalled machine or a locked file has usually recovered.
const faultDelayMs = 1000

// Add counts a fault and sets the delay until the next activation. It returns false after too many faults.
func (f *Faults) Add(now int64) bool {
	f.Count++
	if f.Count >= maxFaults {
		return false
	}
	f.RetryMs = now + faultDelayMs<<(3*(f.Count-1))
	return true
}

// ClockSet drops a delay longer than the longest possible one: the clock was set back.
func (f *Faults) ClockSet(now int64) {
	if f.RetryMs-now > faultDelayMs<<(3*(maxFaults-2)) {
		f.RetryMs = now
	}
}
