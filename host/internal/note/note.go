// Package note is what a shard tells people: what happened to a run, or to a partition, for logs and events.
package note

import "github.com/wfhost/wfhost/store"

// Note is something of a run, or of a partition, that people may want to know.
type Note struct {
	Kind      Kind
	Run       store.RunKey
	Partition store.PartitionID
	Workflow  string
	Cause     error
	Count     int
	LateMs    int64           // of a wake: by how much it was late
	State     *store.RunState // of a run that is stuck
}

// Kind says what a note is about.
type Kind uint8

// The kinds of notes.
const (
	Stuck      Kind = iota // it is durable that a run was left to a person: State
	Long                   // a journal has become long: Count entries
	Fault                  // an activation failed in the host: Cause
	Unrecorded             // the outcome of a step could not be recorded: Cause
	Unreadable             // a run cannot be read: Cause
	Refused                // the store refused the commit of a run: Cause
	Command                // a command could not be taken in, and is tried again unless it says nothing: Cause
	Damaged                // a command in the inbox is damaged, and is passed over: Cause
	Lost                   // a partition was lost: Cause
	Acquired               // a partition was acquired
	Wake                   // a run was woken: LateMs
	Inbox                  // the inbox could not be read: Cause
	Index                  // the wake index could not be read: Cause
)
