package run

import "github.com/wfhost/wfhost/store"

// recount is the number of stored log lines of a run that was retried: lines of the part that is replayed were
// stored before, and the first line beyond it says how many they were.
const recount = ^uint64(0)

// Log is that of a run: the lines that the next commit stores, and how many are stored.
type Log struct {
	fresh   []store.LogLine
	lines   uint64 // of workflow code, of this iteration, those that were dropped included; or recount
	records uint64 // all of them, those of bodies included
}

// Write stores a line of workflow code, the n-th of its iteration, unless it was stored before. replays reports that the
// guest repeats what its journal holds.
func (l *Log) Write(n uint64, replays bool, line store.LogLine) {
	if l.Has(n, replays) {
		return
	}
	l.Drop(n)
	l.Add(line)
}

// Drop counts a line of workflow code that Has does not report as stored, without storing it.
func (l *Log) Drop(n uint64) { l.lines = n + 1 }

// Has reports whether the n-th line of workflow code was stored or dropped before.
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

// Recount says that the run was retried: how many lines are stored of the part that stays is not known.
func (l *Log) Recount() { l.lines = recount }
