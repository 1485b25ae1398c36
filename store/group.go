package store

import (
	"errors"
	"fmt"
)

var errOwnWake = errors.New("the wake of a run or schedule is set by its record")

// CheckGroups returns the error with which every Commit refuses groups, whatever the store holds: too many records; a
// partition, run, schedule or queue that occurs twice; a record of another partition; a wake of a kind that WakeSet
// does not set.
func CheckGroups(groups []Group) error {
	records := 0
	for i := range groups {
		records += len(groups[i].Runs) + len(groups[i].Wakes) + len(groups[i].Schedules) + len(groups[i].Queues)
	}
	if records > MaxCommitRecords {
		return fmt.Errorf("commit of %d runs, schedules, queues and wakes, the limit is %d", records, MaxCommitRecords)
	}
	var seen uint64 // a bit for each partition
	for i := range groups {
		g := &groups[i]
		p := g.Partition.ID()
		if seen&(1<<p) != 0 {
			return &RefusedError{i, -1, fmt.Errorf("partition %d occurs twice in one commit", p)}
		}
		seen |= 1 << p
		if err := checkRuns(i, p, g.Runs); err != nil {
			return err
		}
		if err := checkSchedules(i, p, g.Schedules); err != nil {
			return err
		}
		if err := checkQueues(i, p, g.Queues); err != nil {
			return err
		}
		for j := range g.Wakes {
			switch w := &g.Wakes[j]; {
			case w.Kind == WakeRun || w.Kind == WakeSchedule:
				return &RefusedError{i, -1, fmt.Errorf("wake of %q: %w", w.Key.ID, errOwnWake)}
			case !w.Kind.Known():
				return &RefusedError{i, -1, fmt.Errorf("wake of %q has the unknown kind %d", w.Key.ID, w.Kind)}
			}
		}
	}
	return nil
}

// checkRuns checks the runs of one group. Groups cannot share a run, since a run belongs to one partition.
func checkRuns(group int, p PartitionID, runs []RunCommit) error {
	var seen map[RunKey]bool
	if len(runs) > 1 {
		seen = make(map[RunKey]bool, len(runs))
	}
	for i := range runs {
		run := runs[i].Run
		if len(runs[i].Earlier) > 0 && !runs[i].Create {
			return &RefusedError{group, i, fmt.Errorf("run %q: earlier iterations come with its creation alone", run.ID)}
		}
		if of := run.Partition(); of != p {
			return &RefusedError{group, i, fmt.Errorf("run %q is of partition %d, not of %d", run.ID, of, p)}
		}
		if seen[run] {
			return &RefusedError{group, i, fmt.Errorf("run %q occurs twice in one commit", run.ID)}
		}
		if seen != nil {
			seen[run] = true
		}
	}
	return nil
}

// CheckRecord returns ErrTooLarge if an encoded record is too large to be decoded. what is the record's name for the
// error.
func CheckRecord(what string, record []byte) error {
	if len(record) > MaxRecordBytes {
		return fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", ErrTooLarge, what, len(record), MaxRecordBytes)
	}
	return nil
}

// The bits of PartitionID must fit into the set of CheckGroups.
var _ [64 - Partitions]struct{}
