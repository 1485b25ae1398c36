// Package note defines what shards report about runs and partitions, for logs and events.
package note

import "github.com/wfhost/wfhost/store"

// Note is a report about a run or a partition.
type Note struct {
	Kind      Kind
	Run       store.RunKey
	Partition store.PartitionID
	Workflow  string
	Cause     error
	Count     int
	LateMs    int64           // of a wake: how late it was
	State     *store.RunState // of a run that is stuck
}

// Kind is the kind of a note.
type Kind uint8

// The kinds of notes, and the field that each of them sets.
const (
	Stuck      Kind = iota // it is durable that a run is stuck: State
	Long                   // a journal has become long: Count entries
	Fault                  // an activation failed in the host: Cause
	Unrecorded             // the outcome of a step could not be recorded: Cause
	Unreadable             // a run cannot be read: Cause
	Refused                // the store refused the commit of a run: Cause
	Command                // a command failed and is retried, unless it is malformed: Cause
	Damaged                // a command in the inbox is damaged and is skipped: Cause
	Lost                   // a partition was lost: Cause
	Acquired               // a partition was acquired
	Wake                   // a run was woken: LateMs
	Inbox                  // the inbox could not be read: Cause
	Index                  // the wake index could not be read: Cause
)
