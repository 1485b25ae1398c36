package run

import "github.com/wfhost/wfhost/store"

// recount is the number of stored log lines of a run that was retried. The lines of the replayed part were stored
// before, and the first line beyond it sets the number.
const recount = ^uint64(0)

// Log is a run's log: the lines that the next commit stores, and the number of stored lines.
type Log struct {
	fresh   []store.LogLine
	lines   uint64 // from workflow code in this iteration, dropped lines included; or recount
	records uint64 // all stored lines, also of bodies
}

// Write stores a log line that the workflow's code wrote, the n-th of its iteration, unless it was stored or dropped before.
// replays reports whether the guest is replaying its journal.
func (l *Log) Write(n uint64, replays bool, line store.LogLine) {
	if l.Has(n, replays) {
		return
	}
	l.Drop(n)
	l.Add(line)
}

// Drop counts a log line without storing it. Call it only if Has returned false for the line.
func (l *Log) Drop(n uint64) { l.lines = n + 1 }

// Has reports whether the n-th log line of the workflow's code was stored or dropped before.
func (l *Log) Has(n uint64, replays bool) bool {
	if l.lines == recount {
		return replays
	}
	return n < l.lines
}

// Add stores a line.
func (l *Log) Add(line store.LogLine) {
	line.Index = l.records
	l.records++
	l.fresh = append(l.fresh, line)
}

// Recount marks the number of stored lines as unknown, after a retry.
func (l *Log) Recount() { l.lines = recount }
