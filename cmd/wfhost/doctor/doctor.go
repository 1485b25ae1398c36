// Package doctor checks what a wfhost server depends on: its disk, its clock, the limits of its process and its data
// directory. It writes only a file of its own, which it removes, and may run beside a server.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Status is the verdict of a check.
type Status string

// Statuses, best first.
const (
	OK   Status = "ok"
	Skip Status = "skip" // unknown, or there is nothing to check
	Warn Status = "warn" // a server works, but needs attention
	Fail Status = "fail" // a server does not work, or loses acknowledged data
)

// Check is the result of one check.
type Check struct {
	Name   string         `json:"name"`
	Status Status         `json:"status"`
	Found  string         `json:"found"`            // a sentence for people
	Advice string         `json:"advice,omitempty"` // what to do; empty if nothing
	Values map[string]any `json:"values,omitempty"` // for programs
}

// Report has the results of all checks.
type Report struct {
	Status Status  `json:"status"` // the worst of the checks: ok, warn or fail
	Checks []Check `json:"checks"`
}

// Budgets are the limits of a server that must fit its machine. Negative sizes count as 0.
type Budgets struct {
	GuestBytes, ParkBytes, PoolBytes, WarmBytes, JournalBytes, ModuleBytes int64
	MaxConnections                                                         int
	DiskReserve                                                            int64 // as in host.Config
}

// Config selects the checks.
type Config struct {
	Data    string // the data directory; empty skips the checks of data and disk
	Store   *Check // of the database of a server that has one; nil: its data is in a directory
	Budgets Budgets
	Fsync   time.Duration // how long to measure fsyncs
}

// Run performs all checks except those of a running server's answers. The caller appends these with Add.
func Run(ctx context.Context, cfg Config) *Report {
	r := &Report{Status: OK}
	watch := startClock()
	var state *host.DataState
	if cfg.Store != nil {
		r.Add(*cfg.Store)
	} else if cfg.Data == "" {
		r.Add(Check{Name: "data", Status: Skip, Found: "no data directory was named", Advice: "give --data DIR or --config FILE"})
	} else if s, err := host.InspectData(cfg.Data, cfg.Budgets.DiskReserve); err != nil {
		r.Add(Check{Name: "data", Status: Fail, Found: err.Error(), Advice: "run this as the user of the server"})
	} else {
		state = &s
		r.Add(dataOf(state), foldersOf(state), fsync(ctx, state.Disk.Path, cfg.Fsync), spaceOf(state))
	}
	pid := 0
	if state != nil {
		pid = state.Holder
	}
	r.Add(watch.check(), openFiles(pid, cfg.Budgets), memory(pid, cfg.Budgets), addressSpace(pid))
	r.Add(compilers(ctx)...)
	return r
}

// Add appends checks and updates the overall status.
func (r *Report) Add(checks ...Check) {
	r.Checks = append(r.Checks, checks...)
	for _, c := range checks {
		if c.Status == Fail || c.Status == Warn && r.Status == OK {
			r.Status = c.Status
		}
	}
}

// Named returns the names of the checks with a status.
func (r *Report) Named(s Status) (names []string) {
	for _, c := range r.Checks {
		if c.Status == s {
			names = append(names, c.Name)
		}
	}
	return names
}

// dataOf checks whether this binary can open the store.
func dataOf(s *host.DataState) Check {
	c := Check{Name: "data", Status: OK, Values: map[string]any{"dir": s.Dir, "open": s.Open}}
	if s.Store {
		c.Values["format"], c.Values["opens_up_to"] = s.Format, host.StoreFormat
	}
	if s.Holder != 0 {
		c.Values["pid"] = s.Holder
	}
	held := ""
	if s.Open {
		held = ", and a server has it open"
		if s.Holder != 0 {
			held += fmt.Sprintf(" (process %d)", s.Holder)
		}
	}
	switch {
	case s.Refused != nil:
		c.Status, c.Found = Fail, s.Refused.Error()
		c.Advice = "use the release that has written it, or restore a backup with this one (wfhost restore)"
	case !s.Exists:
		c.Status, c.Found = Skip, fmt.Sprintf("there is no folder %s; a server would make it", s.Dir)
	case !s.Store:
		c.Found = fmt.Sprintf("%s has no store yet; a server would make one", s.Dir)
	case s.Format == 0:
		c.Status, c.Found = Warn, s.Dir+" says no format"+held
		c.Advice = "it is of an earlier release: back it up before this one opens it (wfhost backup)"
	case s.Format < host.StoreFormat:
		c.Status = Warn
		c.Found = fmt.Sprintf("%s has format %d, which becomes %d when this release opens it%s", s.Dir, s.Format,
			host.StoreFormat, held)
		c.Advice = "back it up before (wfhost backup): an earlier release cannot open it after that"
	default:
		c.Found = fmt.Sprintf("%s has format %d, which this release writes%s", s.Dir, s.Format, held)
	}
	return c
}

// foldersOf checks who may read and write the data.
func foldersOf(s *host.DataState) Check {
	c := Check{Name: "folders", Status: OK, Found: "modes and owners are as they should be"}
	if !s.Exists {
		c.Status, c.Found = Skip, "there are none yet"
	}
	for i, f := range s.Folders {
		status := Warn
		if f.Refused {
			status = Fail
		}
		if i == 0 {
			c.Status, c.Found, c.Advice = status, f.Text, f.Advice
			continue
		}
		if status == Fail {
			c.Status = Fail
		}
		c.Found += "; " + f.Text
		c.Advice += "; " + f.Advice
	}
	return c
}

// leastSpace is how many times the reserve should be free, so that hours pass until it is reached.
const leastSpace = 4

// spaceOf checks the free space of the disk.
func spaceOf(s *host.DataState) Check {
	d := s.Disk
	c := Check{Name: "disk space", Status: OK,
		Found:  fmt.Sprintf("%s of %s free, %s reserved", size(d.Free), size(d.Total), size(d.Reserve)),
		Values: map[string]any{"free": d.Free, "total": d.Total, "reserve": d.Reserve}}
	switch {
	case d.Total == 0:
		c.Status, c.Found, c.Values = Skip, "the system does not say how much room there is", nil
	case d.Full:
		c.Status = Fail
		c.Advice = "make room: a server refuses what is new. wfhost retention sweep deletes old runs, a larger disk lasts longer"
	case d.Free < leastSpace*d.Reserve:
		c.Status, c.Advice = Warn, "make room soon: with less than the reserve, a server refuses what is new"
	}
	return c
}

// size formats a number of bytes.
func size(n uint64) string {
	const unit = 1 << 10
	switch {
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	case n < 10*unit*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	}
	return fmt.Sprintf("%d GiB", n/unit/unit/unit)
}
