// Package store says what is durable in wfhost: the records, the keys under which they are kept, their
// encoding, and the interface that a store offers to the host. FORMAT.md, beside this file, shows the
// bytes. The package does no I/O; pebblestore and memstore implement it, storetest is the suite that
// every implementation passes.
//
// A store is divided into Partitions partitions; a run belongs to one of them by its key. Exactly one
// owner may write to a partition at a time: Acquire gives it an epoch, and a later owner's epoch fences it.
// The unit of change is a Group, the atomic change of one partition; one Commit makes several groups durable.
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
	// ErrNotFound: no such run, module, workflow version or namespace.
	ErrNotFound = errors.New("not found")
	// ErrRemoved: the journal of an iteration was removed by the retention. It is an ErrNotFound.
	ErrRemoved = fmt.Errorf("%w: its journal was removed", ErrNotFound)
	// ErrExists: a commit creates a run that is already there.
	ErrExists = errors.New("run exists")
	// ErrFenced: another owner has acquired the partition. The caller drops everything of that partition.
	ErrFenced = errors.New("partition is owned by another host")
	// ErrUnknown: nobody knows whether the commit is durable. The caller drops the partition, acquires it
	// again and reads; it never repeats the commit.
	ErrUnknown = errors.New("outcome of the commit is unknown")
	// ErrConflict: the run's journal does not end where the commit expects it to.
	ErrConflict = errors.New("journal does not end where the commit expects it")
	// ErrTooLarge: a record is larger than MaxRecordBytes.
	ErrTooLarge = errors.New("record is too large")
	// ErrFailed: a write or fsync failed; the store accepts no more writes until it is opened again. What cannot
	// be read does not fail the store.
	ErrFailed = errors.New("store has failed")
	// ErrVersion: written by a newer release.
	ErrVersion = errors.New("written by a newer version of wfhost")
	// ErrCorrupt: bytes that no release has written: a wrong checksum, a gap, an impossible length.
	ErrCorrupt = errors.New("corrupt record")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("another process has it open")
	// ErrReadOnly: the store was opened to be read.
	ErrReadOnly = errors.New("store was opened to be read")
	// ErrCopy: the store is a restored copy that must not act yet. It can be read.
	ErrCopy = errors.New("the data is a copy, in which nothing runs or changes until `wfhost copy release`")
	// ErrKey: payloads are encoded with a key that was not given, or a key is not the one of its id.
	ErrKey = errors.New("the data is encrypted")
	// ErrClosed: the store or partition is closed.
	ErrClosed = errors.New("store is closed")
)

// Partitions is the number of partitions of a store, fixed at its creation: enough to spread over a few
// dozen machines, few enough that walking over all of them is nothing.
const Partitions = 64

// MaxCommitRecords bounds the runs and wakes of one Commit, over all of its groups, so that one batch stays below
// a few MiB.
const MaxCommitRecords = 1000

// A Store keeps everything durable of one installation. Its methods may be called concurrently. What State, Run, Load,
// Logs, Output, List, Timers and Counts return of a run is durable: they return nothing of a commit whose fsync has not
// ended, and may wait for it.
type Store interface {
	// Acquire makes the caller the owner of a partition, under a new epoch that is durable before Acquire
	// returns; an earlier owner's commits answer ErrFenced from then on. owner is a name for people; ttl is
	// how long the ownership lasts without Renew, 0 means until it is fenced.
	Acquire(ctx context.Context, p PartitionID, owner string, ttl time.Duration) (Partition, error)
	// Commit makes the changes of several partitions durable with as few fsyncs as the store can: one, where the
	// partitions share a log. Each group is atomic. When Commit returns nil, all groups are durable.
	//
	// A *RefusedError names the group, and the run if it is one, that cannot be committed; nothing of any group
	// was written then, and the caller may leave the offender out and commit the others. With ErrUnknown, any of
	// the groups may be durable. A partition and a run may occur once over all groups. Commit may be called
	// concurrently; it does not wait for the fsync of an Acquire.
	Commit(ctx context.Context, groups []Group) error
	// Modules returns the content-addressed modules and the versions of workflows.
	Modules() ModuleStore
	// Tokens returns the tokens of callers.
	Tokens() TokenStore
	// Namespace returns the id of the namespace of a name. If there is none, it creates one, durable on return, or
	// returns ErrNotFound unless create is set. Ids are never used again. Creating checks the name with
	// abi.CheckNamespace, and returns ErrTooLarge if the store has MaxNamespaces.
	Namespace(ctx context.Context, name string, create bool) (NamespaceID, error)
	// Namespaces lists the namespaces by name, the default one included.
	Namespaces(ctx context.Context) iter.Seq2[Namespace, error]
	// List returns a page of runs in the order of their creation, runs of one millisecond by id, as they are now or were a
	// moment ago. It takes as long as the page is, however many runs there are: at most MaxLooks of them are looked at. The page
	// ends when it holds MaxPageBytes.
	List(ctx context.Context, q Query) (Page, error)
	// Timers returns a page of the runs that sleep or wait with a deadline, soonest first, those of one instant by id; it is
	// bounded as List is.
	Timers(ctx context.Context, q TimerQuery) (Page, error)
	// Counts returns how many runs a namespace has, for each version of a workflow that has any, by workflow and version. It
	// reads no run: a store keeps the counts as it commits, and they are right after a crash.
	Counts(ctx context.Context, ns NamespaceID) ([]Count, error)
	// Tallies returns how many runs each namespace has that has or had any, by status. It reads no run, as Counts, and takes as
	// long as there are namespaces.
	Tallies(ctx context.Context) (map[NamespaceID]Tally, error)
	// CountOf returns how many runs a version of a workflow has, as Counts does, in a time that depends on nothing.
	CountOf(ctx context.Context, ns NamespaceID, workflow string, version uint32) (Tally, error)
	// Ended returns at most q.Limit ended runs of a partition, in the order of their ends. A run may have been deleted
	// since, or may continue: its state says so.
	Ended(ctx context.Context, q EndedQuery) ([]Position, error)
	// SetRetention sets the retention of a workflow, durable on return; one that bounds nothing is removed. ErrTooLarge if the
	// store has MaxRetentions.
	SetRetention(ctx context.Context, r Retention) error
	// Retentions returns the retentions of all namespaces, by namespace and workflow.
	Retentions(ctx context.Context) ([]Retention, error)
	// SetQuota sets the quota of a namespace, durable on return; one that limits nothing is removed. ErrTooLarge if the
	// store has MaxQuotas.
	SetQuota(ctx context.Context, q Quota) error
	// Quotas returns the quotas of all namespaces, by the number of the namespace.
	Quotas(ctx context.Context) ([]Quota, error)
	// Used returns what a namespace uses. It reads no run, as Counts.
	Used(ctx context.Context, ns NamespaceID) (Usage, error)
	ScheduleStore
	LimitStore
	// Keys returns the keys with which payloads were encoded, by id. Without any, all of them are in the clear.
	Keys(ctx context.Context) ([]Key, error)
	// AddKey stores a key, durable on return. One whose id is there stays as it is. The id has from 1 to MaxKeyID bytes.
	AddKey(ctx context.Context, k Key) error
	// State reads one run's state, as it is now or was a moment ago. ErrNotFound if there is none.
	State(ctx context.Context, run RunKey) (RunState, error)
	// Run reads a run's state and the whole journal of its iteration, both as of the same durable commit. The
	// entries are shared: their bytes stay as they are. A deleted run has no entries. ErrNotFound if there is none.
	Run(ctx context.Context, run RunKey) (RunState, []Entry, error)
	// Load reads entries of the run's given iteration, from a seq on, in order, without gaps. ErrNotFound if the run is deleted
	// meanwhile and the rest cannot be read.
	Load(ctx context.Context, run RunKey, iteration uint32, from Seq) iter.Seq2[Entry, error]
	// Logs reads at most limit stored log lines of a run, from an index on, and no more once they hold MaxPageBytes. Behind the
	// last line there are none.
	Logs(ctx context.Context, run RunKey, from uint64, limit int) ([]LogLine, error)
	// Output reads at most limit chunks of a run's output, from an index on, and no more once they hold MaxPageBytes. Behind the
	// last chunk there are none.
	Output(ctx context.Context, run RunKey, from uint64, limit int) ([]Chunk, error)
	// Hook returns who holds a token, false if nobody does.
	Hook(ctx context.Context, ns NamespaceID, token string) (HookHolder, bool, error)
	// Close releases everything. What was acknowledged stays. Close twice is legal.
	Close() error
}

// A Partition is a store's part as seen by its owner. Commit may be called concurrently for different runs.
type Partition interface {
	// ID returns the number of the partition.
	ID() PartitionID
	// Epoch is this ownership's number, greater than that of every owner before.
	Epoch() Epoch
	// Commit is Store.Commit with one group, whose number in a *RefusedError is 0: it makes all of the commits
	// durable, or none.
	Commit(ctx context.Context, commits []RunCommit) error
	// Due lists wakes in the order of their keys: those after the given key (the zero WakeKey means from
	// the first) whose due time is at most until, at most limit of them.
	Due(ctx context.Context, after WakeKey, untilUnixMs int64, limit int) ([]Wake, error)
	// Commands lists at most limit commands of the inbox after a sequence number, in order. Of one that cannot be decoded it
	// gives the number alone, with Kind 0, so that it does not stand in the way of those behind it.
	Commands(ctx context.Context, after CommandSeq, limit int) ([]Command, error)
	// Discard takes commands out of the inbox that no run takes, and puts the answers to them into the inboxes of those that
	// the answers are for: in one atomic commit, durable on return, so that no crash has a command answered twice.
	Discard(ctx context.Context, seqs []CommandSeq, answers []Command) error
	// Claim makes a run the holder of a token of this partition, unless another one holds it, and returns the holder
	// as it is afterwards. In the same commit the command that asked for it leaves the inbox, and its reply goes
	// out.
	Claim(ctx context.Context, c HookClaim) (HookHolder, error)
	// Renew prolongs the ownership; ErrFenced if it is lost.
	Renew(ctx context.Context) error
	// Release releases the partition.
	Release(ctx context.Context) error
}

// A ModuleStore keeps modules by their SHA-256 and the versions of workflows, which point to them.
type ModuleStore interface {
	// Put stores a module's bytes, durable on return; the same bytes again change nothing but the info.
	Put(ctx context.Context, wasm []byte, info ModuleInfo) (Digest, error)
	// Get reads a module's bytes and checks them against the digest.
	Get(ctx context.Context, d Digest) ([]byte, error)
	// Info reads what was stored with a module.
	Info(ctx context.Context, d Digest) (ModuleInfo, error)
	// AddVersions makes the next version of each named workflow, all of them or none. Where a workflow's
	// latest version has the same module and grants, it returns that version and adds nothing. ErrNotFound if a
	// module is not there: it may have been deleted since Put, by DeleteUnused or with the last version that had it, so the
	// caller repeats both.
	AddVersions(ctx context.Context, specs []VersionSpec) ([]Version, error)
	// Version reads one version of a workflow; number 0 is the latest that is not Imported.
	Version(ctx context.Context, ns NamespaceID, workflow string, number uint32) (Version, error)
	// Versions lists the versions of one workflow, oldest first; the empty name lists those of all
	// workflows, by name.
	Versions(ctx context.Context, ns NamespaceID, workflow string) iter.Seq2[Version, error]
	// Newest reads the version of a workflow with the highest number that has a module, Imported or not. ErrNotFound if none has it.
	// Asked again, it takes a time that does not depend on how many versions there are.
	Newest(ctx context.Context, ns NamespaceID, workflow string, module Digest) (Version, error)
	// Count returns how many versions Versions lists for all workflows of a namespace, in a time that depends on nothing.
	Count(ctx context.Context, ns NamespaceID) (int64, error)
	// DeleteVersion deletes a version, durable on return, with its module if no version of any namespace has it.
	// Version and Versions do not give it any more, and its number is never given again. The caller has made
	// sure that no run needs it. ErrNotFound if there is none.
	DeleteVersion(ctx context.Context, ns NamespaceID, workflow string, number uint32) error
	// Unused returns at most limit modules that were put and have got no version since: those whose upload is in flight, or did
	// not come to its end. It reads no other modules. Some of them may have a version that is older than Put.
	Unused(ctx context.Context, limit int) ([]Digest, error)
	// DeleteUnused deletes those of the modules that no version of any namespace has, durable on return, and returns them.
	// Unused does not return any of the modules again before they are put again. If an upload is between Put and AddVersions,
	// the latter returns ErrNotFound.
	DeleteUnused(ctx context.Context, of []Digest) ([]Digest, error)
}

// A TokenStore keeps the tokens of callers by the SHA-256 of their texts.
type TokenStore interface {
	// Add stores a token, durable on return. ErrExists if there is one with the hash.
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

// WakeSet sets, moves or removes the wake of something else than a run. The key may be any: the wake belongs to the
// partition of its group. Wakes that are set in one group for one key take effect in their order.
type WakeSet struct {
	Kind WakeKind // not WakeRun or WakeSchedule: the wakes of these are in their records
	Key  RunKey
	// OldUnixMs is the wake to remove, NoWake for none. The store does not check it: a wrong one leaves the former
	// wake in the index.
	OldUnixMs int64
	UnixMs    int64 // the wake to set, NoWake for none
}

// RefusedError is what Commit returns when a group cannot be committed. Nothing of any group was written.
type RefusedError struct {
	Group int // its index
	Run   int // the index of the run within the group, -1 if the error concerns the whole group
	// Err is why: ErrFenced, ErrExists, ErrNotFound, ErrConflict, ErrTooLarge, ErrCorrupt or ErrVersion of what is
	// stored, the error of a failed read, or what is wrong with the call.
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
	// Earlier holds, with Create, the journals of earlier iterations, of a run that was imported: whole, but for entry 0 alone of
	// iteration 0 if State.Kept is greater. Their Expect is 0.
	Earlier []IterationEnd
	// State replaces the run's state. If its Kept is greater than before, the journals of the iterations between are removed, with
	// the large payloads that no later one has; of iteration 0 the beginning stays.
	// Its Wake is the run's one key in the wake index; the other indexes have it by its
	// workflow, status, attributes and creation. Required.
	State  RunState
	Logs   []LogLine // appended at State.LogRecords - len(Logs)
	Output []Chunk   // appended to the run's output
	Outbox []Command // to other runs, each put into its receiver's inbox
	Ack    []CommandSeq
	// Delete removes the run with all its records, its large payloads included unless others have them. If State.Deleted is
	// set, the state stays, outside of every index of live and ended runs, so that the id stays taken.
	Delete bool
	// Forget says to observers that Delete removes what was left of a run that was deleted before.
	Forget bool
	// Replace allows Create where a run is: that one is removed first, with all its records.
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

// HookClaim asks for a token, or gives it up.
type HookClaim struct {
	Namespace NamespaceID
	Token     string
	Holder    HookHolder
	Release   bool // the holder gives the token up; that of another one stays
	Ack       CommandSeq
	// Reply makes the answer for the holder that the claim leaves, nil for none. Its error refuses the claim.
	Reply func(HookHolder) (*Command, error)
}

// TokenPartition returns the partition that a token belongs to.
func TokenPartition(ns NamespaceID, token string) PartitionID { return RunKey{ns, token}.Partition() }
