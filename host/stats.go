package host

// Stats is what the host holds in memory at the moment, and what it has done.
type Stats struct {
	Runs      int    // runs that something goes on with
	Instances int    // live instances
	Timers    int    // wakes of the next minute
	Queued    int    // runs that wait for an instance
	Commits   uint64 // of runs, each durable, since Open
	// JournalBytes and GuestBytes are what is counted for the limits of that name.
	JournalBytes, GuestBytes int64
}

// Stats gives the numbers.
func (h *Host) Stats() Stats {
	s := h.rt.Stats()
	return Stats{Runs: s.Runs, Instances: s.Instances, Timers: s.Timers, Queued: s.Queued, Commits: s.Commits,
		JournalBytes: h.journals.Held(), GuestBytes: s.GuestBytes}
}
