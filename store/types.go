package store

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
)

// NamespaceID identifies a namespace. It is the first part of every key. 0 is the default namespace.
type NamespaceID uint32

// DefaultNamespace is the name of namespace 0, which is always there.
const DefaultNamespace = "default"

// Namespace is an entry of the registry of namespaces.
type Namespace struct {
	ID            NamespaceID
	Name          string
	CreatedUnixMs int64 // 0 if unknown, as for the default namespace
}

// Token is the stored record of a token of an API caller. It never has the token's text.
type Token struct {
	Hash      Digest   // the SHA-256 of its text
	Name      string   // for people
	Namespace string   // name of its only namespace, which need not exist; empty for all namespaces
	Scopes    []string // what it allows; sorted
	// CreatedUnixMs and ExpiresUnixMs are Unix times in milliseconds; a token whose ExpiresUnixMs is 0 does not expire. The
	// store keeps expired tokens until they are deleted.
	CreatedUnixMs int64
	ExpiresUnixMs int64
}

// SealKey is the stored record of a key with which payloads are encoded. It never has the key.
type SealKey struct {
	ID            string // up to MaxSealKeyID bytes
	Check         []byte // a text encoded with the key, to detect another key under the same id
	CreatedUnixMs int64
}

// MaxSealKeyID bounds the id of a key, which is in each record that was encoded with the key.
const MaxSealKeyID = 32

// PartitionID is the number of a partition, below Partitions.
type PartitionID uint16

// Epoch is the number of an ownership of a partition.
type Epoch uint64

// Seq is the number of an entry within the journal of one iteration of a run, from 0, without gaps.
type Seq uint64

// CommandSeq is the number of a command within the inbox of a partition, from 1.
type CommandSeq uint64

// RunKey identifies a run.
type RunKey struct {
	Namespace NamespaceID
	ID        string
}

// Partition returns the partition that a run belongs to: FNV-1a 64 over the namespace (4 bytes, big endian)
// and the id, modulo Partitions.
func (k RunKey) Partition() PartitionID {
	h := fnv.New64a()
	_, _ = h.Write([]byte{byte(k.Namespace >> 24), byte(k.Namespace >> 16), byte(k.Namespace >> 8), byte(k.Namespace)})
	_, _ = h.Write([]byte(k.ID))
	return PartitionID(h.Sum64() % Partitions)
}

// Digest is the SHA-256 of a module or payload.
type Digest [32]byte

// String returns the digest in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what String returns.
func ParseDigest(text string) (d Digest, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("digest must be 64 hexadecimal digits, got %q", text)
	}
	copy(d[:], b)
	return d, nil
}

// Incarnation is 128 random bits that tell two runs of one id apart.
type Incarnation [16]byte

// String returns the incarnation in lower-case hexadecimal.
func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

// Status is the status of a run.
type Status uint8

// The statuses. Zero is invalid.
const (
	Queued     Status = 1  // waits for an activation
	Running    Status = 2  // an activation or an attempt of a step is in flight
	Sleeping   Status = 3  // waits for timers only
	Waiting    Status = 4  // waits for more than timers; Reason says for what
	Paused     Status = 5  // an operator stopped it for the time being
	Stuck      Status = 6  // needs a person; Reason says why
	Completed  Status = 7  // ended with a result
	Failed     Status = 8  // ended with an error
	Cancelled  Status = 9  // ended by a cancel
	Terminated Status = 10 // ended by a terminate
)

var statusNames = [...]string{
	Queued: "queued", Running: "running", Sleeping: "sleeping", Waiting: "waiting", Paused: "paused",
	Stuck: "stuck", Completed: "completed", Failed: "failed", Cancelled: "cancelled", Terminated: "terminated",
}

// String returns the status as CLI and API show it.
func (s Status) String() string {
	if s > 0 && int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus reads what String returns.
func ParseStatus(text string) (Status, error) {
	for s, name := range statusNames {
		if name == text && name != "" {
			return Status(s), nil
		}
	}
	return 0, fmt.Errorf("unknown status %q; it is one of %s", text, strings.Join(statusNames[Queued:], ", "))
}

// Terminal reports whether the run has ended.
func (s Status) Terminal() bool { return s >= Completed && s <= Terminated }

// Attention reports whether the status needs a person.
func (s Status) Attention() bool { return s == Paused || s == Stuck }

// Busy reports whether the host has work for the run. Such a status changes with nearly each commit of the run.
func (s Status) Busy() bool { return s == Queued || s == Running }

// MarshalText returns the name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Status) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStatus(string(text))
	return err
}

// RunState is the durable state of a run: the fields that listings show, and the fields that the host needs before it
// reads the journal.
type RunState struct {
	Run         RunKey
	Incarnation Incarnation
	Iteration   uint32 // how often it continued as new
	Workflow    string
	Version     uint32
	Module      Digest
	Status      Status
	Reason      string // of Waiting and Stuck; of Failed, the message or a part of it
	InputDigest Digest // of the input, independent of how its JSON is written: to compare with a second start
	// Times in Unix milliseconds; 0 = not yet.
	CreatedUnixMs int64
	StartedUnixMs int64 // the first activation of the first iteration
	UpdatedUnixMs int64
	EndedUnixMs   int64
	WakeUnixMs    int64  // the run's key in the wake index; NoWake = none
	Length        Seq    // entries of this iteration
	JournalBytes  int64  // their encoded size
	StoredBytes   int64  // bytes stored by all commits of the run: see UsageBytes
	LogLines      uint64 // lines that workflow code logged, dropped ones too; a replay does not log these again
	LogRecords    uint64 // stored log lines, including lines of bodies and step instances
	Suspension    Suspension
	Rested        Seq    // Suspension.Seq of the newest wait if Suspension is empty: the guest must reach it again
	Faults        uint32 // host faults in a row
	Output        uint64 // chunks of output, of earlier iterations too
	Attributes    []Attribute
	Memo          string // JSON that the run was started with, for people; empty if there is none
	TraceParent   string // W3C Trace Context header of the start; empty if it had none
	Parent        string // id of the run that started this run; empty if none did
	// ParentIteration is 1 plus the iteration of the parent in which it started this run. 0 if there is no parent, or
	// if the iteration is unknown.
	ParentIteration uint32
	// MayHaveBegun tells which open steps may have begun their first attempt. 0: any of them. Otherwise a host has stopped since: no
	// attempt is in flight, and only steps called in the first MayHaveBegun-1 entries may have begun.
	MayHaveBegun  Seq
	ID            IDOrigin // origin of the run's id
	Deleted       bool     // the run was deleted; this record reserves its id for some time
	Schedule      string   // id of the schedule that started the run; empty if none did
	NominalUnixMs int64    // the instant for which Schedule started the run
	Slot          Slot     // whether the run waits for, or has, a slot of its workflow's limits
	Aside         Aside    // why the run does not proceed here
	Import        string   // identifies the export of an imported run, to detect a repeated import
	ImportUnixMs  int64    // when the run was imported
	// Kept is the first iteration whose whole journal is kept. Retention has removed the journals before it, except the
	// beginning of iteration 0, with entry 0.
	Kept uint32
	// Past holds the newest iterations before this one, at most MaxPast, in their order.
	Past   []Past
	Sealed bool // Reason is Reason and InputDigest, and Memo is Memo, encoded by package seal; InputDigest is zero
}

// MaxPast bounds RunState.Past, which is written with each commit of the run.
const MaxPast = 100

// Past describes an iteration that is over: the bytes of its journal, and when it continued as new.
type Past struct{ Bytes, EndedUnixMs int64 }

// Removed returns an error that wraps ErrRemoved if the retention has removed the journal of an iteration.
func (x *RunState) Removed(iteration uint32) error {
	if iteration >= x.Kept {
		return nil
	}
	return fmt.Errorf("run %q, iteration %d: %w by its retention; the first one that is kept is %d", x.Run.ID, iteration, ErrRemoved,
		x.Kept)
}

// Asked reports whether a parent may still ask how the run ended: the parent exists, and has not continued as new since
// it started the run. A parent asks when it is retried.
func (x *RunState) Asked(parent *RunState) bool {
	return !parent.Deleted && (x.ParentIteration == 0 || parent.Iteration < x.ParentIteration)
}

// RetainedUnixMs returns the instant from which the retention of an ended run counts: its end or its import, whichever
// is later.
func (x *RunState) RetainedUnixMs() int64 { return max(x.EndedUnixMs, x.ImportUnixMs) }

// IDOrigin is the origin of a run's id. It decides who may use the id again once the run is deleted.
type IDOrigin uint8

// The origins. Numbers are never reused.
const (
	IDGiven   IDOrigin = 0 // given by the caller of the start, who may repeat it; or started by a release without this field
	IDDrawn   IDOrigin = 1 // drawn at random by the host: unknown to callers until the run exists
	IDDerived IDOrigin = 2 // derived from the parent's id and the number of the call
)

// Aside is the reason why a run does not proceed, whatever it waits for.
type Aside uint8

// The reasons. Numbers are never reused.
const (
	NotAside   Aside = 0 // an ordinary run
	AsideCopy  Aside = 1 // the run is a copy, for inspection
	AsideMoved Aside = 2 // the run continues in another installation
)

// String returns the reason's name, empty for NotAside.
func (a Aside) String() string {
	switch a {
	case NotAside:
		return ""
	case AsideCopy:
		return "copy"
	case AsideMoved:
		return "moved"
	}
	return fmt.Sprintf("aside(%d)", uint8(a))
}

// Slot says whether a run waits for, or has, a slot of its workflow's limits.
type Slot uint8

// The values of Slot.
const (
	SlotNone   Slot = 0 // has not asked for a slot: no limit holds it back, or it has not reached its start, or has ended
	SlotAsked  Slot = 1 // waits for a slot
	SlotHolds  Slot = 2 // has a slot, until it ends
	slotValues      = 3
)

// Known reports whether this release knows the value.
func (s Slot) Known() bool { return s < slotValues }

// Attribute is a searchable key and value of a run. A run's attributes are sorted by key.
type Attribute struct{ Key, Value string }

// NoWake is the value of RunState.WakeUnixMs if the run has no wake in the index.
const NoWake int64 = -1

// Suspension is the wait in which the guest was last suspended.
type Suspension struct {
	Seq           Seq     // number of entries that the guest had received; a body's copy replays exactly these
	Poll          bool    // the guest waits in poll_oneoff, not in await
	Events        bool    // the poll includes the events descriptor
	Awaited       []int64 // handles of the await; empty with Poll false = any handle
	PollDue       bool    // the poll has a clock
	PollDueUnixMs int64   // its deadline
}

// ModuleInfo describes a module, as found by its inspection.
type ModuleInfo struct {
	Size            int64
	StoredUnixMs    int64
	DescriptionJSON []byte // what workflow_describe returned; empty if the module does not export it
}

// VersionSpec describes a version to add to a workflow.
type VersionSpec struct {
	Namespace     NamespaceID
	Workflow      string
	Module        Digest
	Grants        Grants
	CreatedUnixMs int64
	Imported      bool // see Version
	// After is the number of the workflow's latest version when the caller decided to add this one, as ModuleStore.Version
	// returns it for number 0; 0 for none. ErrConflict if the latest version is another one now. nil: whatever it is.
	After *uint32
}

// Grants lists what a version may do beyond computing and sleeping.
type Grants struct {
	Steps     []string // host handlers without their prefix, or "*" for all; sorted
	HTTPHosts []string // host patterns for egress; sorted
	Secrets   []string // secrets, with the host and header to which each may be sent; sorted
	Trusted   bool     // runs without the CPU check
}

// Version is one version of a workflow.
type Version struct {
	Namespace     NamespaceID
	Workflow      string
	Number        uint32 // from 1
	Module        Digest
	Grants        Grants
	CreatedUnixMs int64
	// Imported marks a version that came with an imported run, for that run. It is never the latest version.
	Imported bool
	// Deleted marks a deleted version. The record of a workflow's newest version stays until the next version is added,
	// so that its number is never reused. The records of other versions are removed at once.
	Deleted bool
}

// WakeKind says what a wake is for.
type WakeKind uint8

// The kinds of wakes. Numbers are never reused.
const (
	WakeRun       WakeKind = 0 // of a run: RunState.WakeUnixMs
	WakeSchedule  WakeKind = 1 // of a schedule
	WakeRetention WakeKind = 2 // reserved: for the deletion of an ended run
	WakeLease     WakeKind = 3 // reserved: for the expiry of a lease
	WakeLimit     WakeKind = 4 // for a queue of runs whose rate allows the next start
)

// Known reports whether this release knows the kind.
func (k WakeKind) Known() bool { return k <= WakeLimit }

// Wake is one key of the wake index.
type Wake struct {
	Key       WakeKey
	DueUnixMs int64 // the true deadline, which Key.UnixMs never precedes
}

// WakeKey is a key in the wake index of a partition, which holds the wakes of all namespaces. Compare defines the
// order.
type WakeKey struct {
	UnixMs int64 // not negative
	Kind   WakeKind
	Key    RunKey // the run, or the namespace and id of a schedule or other owner
}

// LogLine is one stored line of a run's log.
type LogLine struct {
	Index   uint64 // from 0, gapless per run
	UnixMs  int64
	Level   int8   // as in abi.LogDebug …
	Step    string // "" = workflow code, else the step whose body or instance logged
	Attempt uint32
	Text    string
	Sealed  bool // Text is the whole line, encoded by package seal; of the other fields, only Index and UnixMs are set
}

// Chunk is a piece of a run's output.
type Chunk struct {
	Index  uint64
	UnixMs int64
	Topic  string
	Data   []byte
	Sealed bool // Data is the whole chunk, encoded by package seal; of the other fields, only Index and UnixMs are set
}

// CommandID identifies a command by the sender's incarnation, iteration and seq. An answer has the CommandID of the
// command that it answers, with another kind.
type CommandID struct {
	Incarnation Incarnation
	Iteration   uint32
	Seq         Seq
}

// Command is a message from one run, or from the host, to a run.
type Command struct {
	Seq           CommandSeq // assigned by the inbox
	ID            CommandID
	Kind          CommandKind
	To            RunKey
	ToIncarnation Incarnation // zero = any
	From          RunKey
	Name          string
	Data          []byte
	// Sealed reports that Data is the whole command, encoded by package seal. From and Name are not set then.
	Sealed bool
}

// CommandKind says what a command asks of its receiver. Kinds are below 16: ids of commands have no room for more.
type CommandKind uint8

// The kinds of commands. Zero is invalid.
const (
	CommandChildStart  CommandKind = 1
	CommandChildEnd    CommandKind = 2
	CommandCancel      CommandKind = 3
	CommandSignal      CommandKind = 4
	CommandHookClaim   CommandKind = 5
	CommandHookResolve CommandKind = 6
	CommandSchedule    CommandKind = 7
	CommandReply       CommandKind = 8 // to the run that sent a signal or claimed a token: Name handle, Data error JSON or empty
	CommandHookRelease CommandKind = 9
	CommandChildAsk    CommandKind = 10 // a retried parent asks how its child ended
	CommandSlotAsk     CommandKind = 11 // a run asks the queue of its workflow for a slot
	CommandSlotGive    CommandKind = 12 // the queue gives the run a slot
	CommandSlotReturn  CommandKind = 13 // the run has ended and returns its slot or leaves the queue
	CommandLimits      CommandKind = 14 // the limits of a workflow were changed
)
