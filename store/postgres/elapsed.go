package postgres

import "time"

// start returns an instant for elapsed.
func start() time.Time { return time.Now() }

// elapsed returns the time since an instant of start, by the machine's monotonic clock. It tells how long ago the database was
// asked for the lease; no run sees it.
func elapsed(since time.Time) time.Duration { return time.Since(since) }
