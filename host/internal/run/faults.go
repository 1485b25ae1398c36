package run

// Faults are the faults of the host that a run's activations met, in a row.
type Faults struct {
	Count   uint32
	RetryMs int64 // no activation before this instant
}

// maxFaults is how many faults in a row leave a run to a person.
const maxFaults = 3

// faultDelayMs is how long an activation waits after a first fault of the host; after the second one it is eight
// times as long. A machine that stood still, or a file that was locked, has passed by then.
const faultDelayMs = 1000

// Add counts a fault, after which the activation is repeated in a while, false if that has failed too often.
func (f *Faults) Add(now int64) bool {
	f.Count++
	if f.Count >= maxFaults {
		return false
	}
	f.RetryMs = now + faultDelayMs<<(3*(f.Count-1))
	return true
}

// Look drops a delay that is longer than any: the clock was set back.
func (f *Faults) Look(now int64) {
	if f.RetryMs-now > faultDelayMs<<(3*(maxFaults-2)) {
		f.RetryMs = now
	}
}
