package shard

import "github.com/wfhost/wfhost/store"

// Report tells what happened to a run or a partition, for logs and events.
type Report struct {
	Kind      ReportKind
	Run       store.RunKey
	Partition store.PartitionID
	Workflow  string
	Cause     error
	Count     int
	LateMs    int64           // of a wake: how late it was
	State     *store.RunState // of a run that is stuck
}

// ReportKind is the kind of a report.
type ReportKind uint8

// The kinds of reports, and the field that each of them sets.
const (
	ReportStuck       ReportKind = iota // it is durable that a run is stuck: State
	ReportLongJournal                   // a journal has become long: Count entries
	ReportFault                         // an activation failed in the host: Cause
	ReportUnrecorded                    // the outcome of a step could not be recorded: Cause
	ReportUnreadable                    // a run cannot be read: Cause
	ReportRefused                       // the store refused the commit of a run: Cause
	ReportCommand                       // a command failed and is retried, unless it is malformed: Cause
	ReportDamaged                       // a command in the inbox is damaged and is skipped: Cause
	ReportLost                          // a partition was lost: Cause
	ReportAcquired                      // a partition was acquired
	ReportWake                          // a run was woken: LateMs
	ReportInbox                         // the inbox could not be read: Cause
	ReportIndex                         // the wake index could not be read: Cause
)
