// Package store defines what is durable in wfhost: the records, their keys and encoding, and the interface that a store
// offers to the host. FORMAT.md, beside this file, shows the bytes. The package does no I/O: pebblestore and memstore
// implement it, and storetest is the suite that every implementation passes.
//
// A store has Partitions partitions. A run belongs to one of them, by its key. Exactly one owner may write to a
// partition at a time: Acquire returns an epoch, which the epoch of a later owner fences. The unit of change is a
// Group, the atomic change of one partition. One Commit makes several groups durable.
//
// Every store keeps the promises of the interfaces in store.go, schedule.go and limits.go, and uses the checks and the encoding
// of records (codec*.go). The keys (key.go) are the layout of pebblestore; a store with tables of its own does not need them. The
// interfaces of disk.go and remember.go are optional. Backup, verification and inspection exist for Pebble only.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Errors that stores return, to be tested with errors.Is.
var (
	// ErrNotFound: there is no such run, module, workflow version or namespace.
	ErrNotFound = errors.New("not found")
	// ErrRemoved: the journal of an iteration was removed by the retention. It is an ErrNotFound.
	ErrRemoved = fmt.Errorf("%w: its journal was removed", ErrNotFound)
	// ErrExists: a commit creates a run that is already there.
	ErrExists = errors.New("run exists")
	// ErrFenced: another owner has acquired the partition. The caller drops its state of the partition.
	ErrFenced = errors.New("partition is owned by another host")
	// ErrUnknown: the commit may or may not be durable. The caller drops the partition, acquires it again and reads. It
	// never repeats the commit.
	ErrUnknown = errors.New("outcome of the commit is unknown")
	// ErrConflict: the run's journal does not end where the commit expects it to.
	ErrConflict = errors.New("journal does not end where the commit expects it")
	// ErrTooLarge: a record is larger than MaxRecordBytes.
	ErrTooLarge = errors.New("record is too large")
	// ErrUnavailable: the store cannot be reached at the moment, or takes no writes. Nothing was changed.
	ErrUnavailable = errors.New("store cannot be reached")
	// ErrFull: the store has no room. Nothing was changed.
	ErrFull = errors.New("store is full")
	// ErrFailed: a write or fsync failed. The store refuses writes until it is opened again. A failed read does not
	// fail the store.
	ErrFailed = errors.New("store has failed")
	// ErrVersion: a newer release wrote the record or the store.
	ErrVersion = errors.New("written by a newer version of wfhost")
	// ErrCorrupt: no release writes these bytes: a wrong checksum, a gap, an impossible length.
	ErrCorrupt = errors.New("corrupt record")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("another process has it open")
	// ErrReadOnly: the store was opened read-only.
	ErrReadOnly = errors.New("store was opened to be read")
	// ErrCopy: the store is a restored copy that must not act yet. It can be read.
	ErrCopy = errors.New("the data is a copy, in which nothing runs or changes until `wfhost copy release`")
	// ErrKey: payloads are encoded with a key that the host was not given, or the host was given another key under that
	// id.
	ErrKey = errors.New("the data is encrypted")
	// ErrClosed: the store or partition is closed.
	ErrClosed = errors.New("store is closed")
)

// Partitions is the number of partitions of a store, fixed at its creation. It is enough for a few dozen machines, and
// walking over all partitions is still cheap.
const Partitions = 64

// MaxCommitRecords bounds the runs, schedules, queues and wakes of one Commit, over all of its groups, so that a batch
// stays below a few MiB.
const MaxCommitRecords = 1000

// A Store keeps the durable state of one installation. Its methods may be called concurrently. State, Run, Load, Logs,
// Output, List, Timers and Counts return durable data of a run only: they may wait for the fsync of a pending commit,
// and never return its changes before.
type Store interface {
	// Acquire makes the caller the owner of a partition, under a new epoch that is durable before Acquire returns. From
	// then on, commits of an earlier owner return ErrFenced. owner is a name for people. The ownership lasts for ttl
	// without Renew; 0 means until it is fenced.
	Acquire(ctx context.Context, p PartitionID, owner string, ttl time.Duration) (Partition, error)
	// Commit makes the changes of several partitions durable with as few fsyncs as possible: one if the partitions
	// share a log. Each group is atomic. When Commit returns nil, all groups are durable.
	//
	// A *RefusedError names the group that cannot be committed, and its run if one run is the cause. No group was
	// written then, and the caller may commit again without the offender. After ErrUnknown, any of the groups may be
	// durable. A partition and a run may occur once over all groups. Commit may be called concurrently. It does not
	// wait for the fsync of an Acquire.
	Commit(ctx context.Context, groups []Group) error
	// Modules returns the store of the content-addressed modules and of the versions of workflows.
	Modules() ModuleStore
	// Tokens returns the tokens of callers.
	Tokens() TokenStore
	// Namespace returns the id of the namespace with a name. If there is none, it creates one, durable on return, or
	// returns ErrNotFound if create is false. Ids are never reused. Before it creates a namespace, it checks the name
	// with abi.CheckNamespace, and returns ErrTooLarge if the store has MaxNamespaces.
	Namespace(ctx context.Context, name string, create bool) (NamespaceID, error)
	// Namespaces lists the namespaces by name, the default one included.
	Namespaces(ctx context.Context) iter.Seq2[Namespace, error]
	// List returns a page of runs in the order of their creation, runs of one millisecond by id, as they are now or
	// were a moment ago. It looks at no more than MaxLooks runs, so its time depends on the page, not on the number of
	// runs. A page ends once it holds MaxPageBytes.
	List(ctx context.Context, q Query) (Page, error)
	// Timers returns a page of the runs that sleep or wait with a deadline, soonest first, runs with one deadline by
	// id. It has the bounds of List.
	Timers(ctx context.Context, q TimerQuery) (Page, error)
	// Counts returns the number of runs of each version of a workflow that has runs in a namespace, by workflow and
	// version. It reads no runs: a store keeps the counts as it commits, and they are right after a crash.
	Counts(ctx context.Context, ns NamespaceID) ([]Count, error)
	// Tallies returns the number of runs by status, for each namespace that has or had runs. Like Counts, it reads no
	// runs. Its time grows with the number of namespaces.
	Tallies(ctx context.Context) (map[NamespaceID]Tally, error)
	// CountOf returns what Counts returns for one version of a workflow, in constant time.
	CountOf(ctx context.Context, ns NamespaceID, workflow string, version uint32) (Tally, error)
	// Ended returns at most q.Limit ended runs of a partition, in the order in which they ended. A run may have been
	// deleted since, or continue: its state shows that.
	Ended(ctx context.Context, q EndedQuery) ([]Position, error)
	// SetRetention sets the retention of a workflow, durable on return, or removes it if it has no bounds. ErrTooLarge
	// if the store has MaxRetentions.
	SetRetention(ctx context.Context, r Retention) error
	// Retentions returns the retentions of all namespaces, by namespace and workflow.
	Retentions(ctx context.Context) ([]Retention, error)
	// SetQuota sets the quota of a namespace, durable on return, or removes it if it has no limits. ErrTooLarge if the
	// store has MaxQuotas.
	SetQuota(ctx context.Context, q Quota) error
	// Quotas returns the quotas of all namespaces, by the id of the namespace.
	Quotas(ctx context.Context) ([]Quota, error)
	// Used returns the usage of a namespace. Like Counts, it reads no runs.
	Used(ctx context.Context, ns NamespaceID) (Usage, error)
	ScheduleStore
	LimitStore
	// SealKeys returns the keys with which payloads were encoded, by id. If there are none, all payloads are in the clear.
	SealKeys(ctx context.Context) ([]SealKey, error)
	// AddSealKey stores a key, durable on return. If there is a key with the id, AddSealKey leaves it as it is. The id has from
	// 1 to MaxSealKeyID bytes.
	AddSealKey(ctx context.Context, k SealKey) error
	// State reads one run's state, as it is now or was a moment ago. ErrNotFound if there is none.
	State(ctx context.Context, run RunKey) (RunState, error)
	// Run reads a run's state and the whole journal of its iteration, both as of the same durable commit. The entries
	// are shared: the caller must not change their bytes. A deleted run has no entries. ErrNotFound if there is none.
	Run(ctx context.Context, run RunKey) (RunState, []Entry, error)
	// Load reads the entries of one iteration of a run from a seq on, in order, without gaps. ErrNotFound if the run is
	// deleted meanwhile and the rest cannot be read.
	Load(ctx context.Context, run RunKey, iteration uint32, from Seq) iter.Seq2[Entry, error]
	// Logs reads at most limit stored log lines of a run from an index on, and stops once they hold MaxPageBytes. It
	// returns none after the last line.
	Logs(ctx context.Context, run RunKey, from uint64, limit int) ([]LogLine, error)
	// Output reads at most limit chunks of a run's output from an index on, and stops once they hold MaxPageBytes. It
	// returns none after the last chunk.
	Output(ctx context.Context, run RunKey, from uint64, limit int) ([]Chunk, error)
	// Hook returns the holder of a token, false if it has none.
	Hook(ctx context.Context, ns NamespaceID, token string) (HookHolder, bool, error)
	// Close releases all resources. Acknowledged commits stay durable. Calling Close twice is legal.
	Close() error
}

// A Partition is the owner's view of one partition of a store. Commit may be called concurrently for different runs.
type Partition interface {
	// ID returns the number of the partition.
	ID() PartitionID
	// Epoch returns the number of this ownership. It is greater than the epochs of all earlier owners.
	Epoch() Epoch
	// Commit is Store.Commit with one group, which has number 0 in a *RefusedError. It makes all of the commits
	// durable, or none.
	Commit(ctx context.Context, commits []RunCommit) error
	// Due lists at most limit wakes that are due at untilUnixMs or before, in the order of their keys, beginning after
	// the given key. The zero WakeKey means from the first.
	Due(ctx context.Context, after WakeKey, untilUnixMs int64, limit int) ([]Wake, error)
	// Commands lists at most limit commands of the inbox after a sequence number, in order. If a command cannot be
	// decoded, only its number is set and Kind is 0, so that it does not block the commands behind it.
	Commands(ctx context.Context, after CommandSeq, limit int) ([]Command, error)
	// Discard removes commands from the inbox that have no receiving run, and puts the answers into the inboxes of
	// their receivers. Both happen in one atomic commit, durable on return, so that a command is not answered twice
	// after a crash.
	Discard(ctx context.Context, seqs []CommandSeq, answers []Command) error
	// Claim makes a run the holder of a token of this partition unless another run holds it, and returns the holder
	// after the claim. The same commit removes the command that asked for the token from the inbox, and sends its
	// reply.
	Claim(ctx context.Context, c HookClaim) (HookHolder, error)
	// Renew extends the ownership. ErrFenced if it is lost.
	Renew(ctx context.Context) error
	// Release releases the partition.
	Release(ctx context.Context) error
}

// A ModuleStore keeps modules by their SHA-256, and the versions of workflows, which refer to modules.
type ModuleStore interface {
	// Put stores a module's bytes, durable on return. If the same bytes are there, it replaces the info only.
	Put(ctx context.Context, wasm []byte, info ModuleInfo) (Digest, error)
	// Get reads a module's bytes and checks them against the digest.
	Get(ctx context.Context, d Digest) ([]byte, error)
	// Info reads the info that was stored with a module.
	Info(ctx context.Context, d Digest) (ModuleInfo, error)
	// AddVersions adds the next version of each named workflow, all of them or none. If a workflow's latest version has the
	// same module and grants, it returns that version and adds none. ErrConflict: see VersionSpec.After. ErrNotFound if a
	// module is not there: DeleteUnused may have deleted it since Put, or the deletion of its last version. The caller then
	// repeats both.
	AddVersions(ctx context.Context, specs []VersionSpec) ([]Version, error)
	// Version reads one version of a workflow. Number 0 means the latest version that is not Imported.
	Version(ctx context.Context, ns NamespaceID, workflow string, number uint32) (Version, error)
	// Versions lists the versions of one workflow, oldest first. The empty name lists the versions of all workflows, by
	// name.
	Versions(ctx context.Context, ns NamespaceID, workflow string) iter.Seq2[Version, error]
	// Newest reads the version with the highest number among the versions of a workflow that have the module, Imported
	// or not. ErrNotFound if there is none. A repeated call takes a time that does not depend on the number of
	// versions.
	Newest(ctx context.Context, ns NamespaceID, workflow string, module Digest) (Version, error)
	// Count returns how many versions Versions lists for all workflows of a namespace, in constant time.
	Count(ctx context.Context, ns NamespaceID) (int64, error)
	// DeleteVersion deletes a version, durable on return, and its module if no version of any namespace has it. Version
	// and Versions do not return the version any more, and its number is never reused. The caller must have checked
	// that no run needs it. ErrNotFound if there is none.
	DeleteVersion(ctx context.Context, ns NamespaceID, workflow string, number uint32) error
	// Unused returns at most limit modules that were put and have got no version since: their upload is in flight, or
	// was broken off. It reads no other modules. Some of the modules may have a version that is older than Put.
	Unused(ctx context.Context, limit int) ([]Digest, error)
	// DeleteUnused deletes the given modules that no version of any namespace has, durable on return, and returns the
	// deleted ones. Unused does not return any of the given modules again until they are put again. If an upload is
	// between Put and AddVersions, AddVersions returns ErrNotFound.
	DeleteUnused(ctx context.Context, of []Digest) ([]Digest, error)
}

// A TokenStore keeps the tokens of API callers by the SHA-256 of their texts.
type TokenStore interface {
	// Add stores a token, durable on return. ErrExists if there is a token with the hash.
	Add(ctx context.Context, t Token) error
	// Token reads the token with a hash, whether it has expired or not. ErrNotFound if there is none.
	Token(ctx context.Context, hash Digest) (Token, error)
	// Delete removes the token with a hash, durable on return: no later call of Token returns it. ErrNotFound if there is none.
	Delete(ctx context.Context, hash Digest) error
	// All lists the tokens by their hashes.
	All(ctx context.Context) iter.Seq2[Token, error]
}

// Group is the change of one partition within a Commit.
type Group struct {
	Partition Partition   // from Acquire of the same store
	Runs      []RunCommit // of different runs of the partition
	Schedules []ScheduleSet
	Queues    []QueueSet
	Wakes     []WakeSet
}

// WakeSet sets, moves or removes a wake that does not belong to a run or schedule. The key may be any: the wake belongs
// to the partition of its group. If a group sets several wakes for one key, they take effect in their order.
type WakeSet struct {
	Kind WakeKind // not WakeRun or WakeSchedule: the records of runs and schedules set their wakes
	Key  RunKey
	// OldUnixMs is the wake to remove, NoWake for none. The store does not check it: with a wrong value, the former
	// wake stays in the index.
	OldUnixMs int64
	UnixMs    int64 // the wake to set, NoWake for none
}

// RefusedError is returned by Commit if a group cannot be committed. No group was written.
type RefusedError struct {
	Group int // its index
	Run   int // the index of the run within the group, -1 if the error concerns the whole group
	// Err is the reason: ErrFenced, ErrExists, ErrNotFound, ErrConflict, ErrTooLarge, ErrCorrupt or ErrVersion of a
	// stored record, the error of a failed read, or a fault of the call.
	Err error
}

// Error returns the text of Err.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// RunCommit is the change of one run within a Group.
type RunCommit struct {
	Run    RunKey
	Create bool    // the run must not exist: ErrExists
	Expect Seq     // number of entries of State.Iteration before this commit: ErrConflict
	Append []Entry // their seqs begin at Expect, without gaps
	// Before ends the iteration before State.Iteration in the same commit; Expect is 0 then.
	Before *IterationEnd
	// Earlier holds the journals of earlier iterations of an imported run, with Create only. They are whole, except
	// that iteration 0 has entry 0 alone if State.Kept is greater. Their Expect is 0.
	Earlier []IterationEnd
	// State replaces the run's state. If its Kept is greater than before, the commit removes the journals of the
	// iterations between, with the large payloads that no later iteration has. The beginning of iteration 0 stays.
	// State.WakeUnixMs becomes the run's only key in the wake index; the other indexes have the run by its workflow,
	// status, attributes and creation. Required.
	State  RunState
	Logs   []LogLine // appended at State.LogRecords - len(Logs)
	Output []Chunk   // appended to the run's output
	Outbox []Command // to other runs, each put into its receiver's inbox
	Ack    []CommandSeq
	// Delete removes the run with all its records, and its large payloads unless other runs have them. If State.Deleted
	// is set, the state stays, outside of every index of live and ended runs, so that the id stays taken.
	Delete bool
	// Forget tells observers that Delete removes the remaining record of a run that was deleted before.
	Forget bool
	// Replace allows Create if the run exists: its records are all removed first.
	Replace bool
}

// IterationEnd is the end of the journal of an iteration that continued as new.
type IterationEnd struct {
	Iteration uint32
	Expect    Seq // number of its entries before this commit
	Append    []Entry
}

// HookHolder is the run that a token delivers to.
type HookHolder struct {
	Run         RunKey
	Incarnation Incarnation
	Iteration   uint32
	Handle      int64
}

// HookClaim claims a token, or releases it.
type HookClaim struct {
	Namespace NamespaceID
	Token     string
	Holder    HookHolder
	Release   bool // Holder releases the token; if another run holds it, it stays
	Ack       CommandSeq
	// Reply makes the answer from the holder after the claim, nil for none. Its error refuses the claim.
	Reply func(HookHolder) (*Command, error)
}

// TokenPartition returns the partition that a token belongs to.
func TokenPartition(ns NamespaceID, token string) PartitionID { return RunKey{ns, token}.Partition() }
