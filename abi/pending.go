package abi

// Untaken is the number of pending signals, which the run has accepted and its workflow has not taken, and the bytes of their
// payloads.
type Untaken struct{ N, Bytes int64 }

// CheckPending returns an error of code Limit if a run has no room for another signal. bytes is the size of its payload, of
// counts the pending signals of its name, and all those of every name.
func CheckPending(name string, of, all Untaken, bytes int64) error {
	for _, x := range []struct {
		have, limit int64
		what        string
	}{
		{of.Bytes + bytes, MaxPendingSignalBytes / PendingNameShare, "bytes of its name"},
		{all.Bytes + bytes, MaxPendingSignalBytes, "bytes"},
		{of.N + 1, MaxPendingSignals / PendingNameShare, "of its name"},
		{all.N + 1, MaxPendingSignals, "in all"},
	} {
		if x.have > x.limit {
			return Errorf(Limit, "with the signal %q there would be %d %s that nobody has taken, the limit is %d", name, x.have,
				x.what, x.limit)
		}
	}
	return nil
}
