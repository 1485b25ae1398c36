package host

import "github.com/wfhost/wfhost/host/internal/suspect"

// SetSuspectTimes sets when runs are tried that bring the host down, for all hosts that are opened from now on.
func SetSuspectTimes(t suspect.Times) { suspectTimes = t }
