package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Tables of the key space, as the byte after namespace and partition. See FORMAT.md.
const (
	TableEpoch     = 'e' // -> u64be epoch; with suffix 'i' or 'w' -> u64be of the inbox or wake index
	TableState     = 's' // run id -> state
	TableJournal   = 'j' // run id 0x00 iteration u32be, first seq u64be -> chunk of entries
	TableWake      = 'w' // time u64be, run id, or 0x00 kind u8 namespace u32be id -> true deadline
	TableRuns      = 'r' // creation, run id -> nothing
	TableStatus    = 'c' // status u8, creation, run id -> nothing: see FORMAT.md
	TableBusy      = 'b' // namespace u32be, creation, run id -> busy record: queued and running runs, under namespace 0
	TableOf        = 'k' // workflow 0x00, creation, run id -> nothing
	TableWith      = 'q' // 16 bytes of an attribute's digest, creation, run id -> nothing
	TableCount     = 'n' // namespace u32be, workflow 0x00 version u32be -> counts, under namespace 0
	TableLive      = 'l' // of format 2: run id -> nothing
	TableStuck     = 'a' // of format 2: run id -> nothing
	TableEnded     = 't' // end time u64be, run id -> nothing
	TableDeleted   = 'x' // time of deletion u64be, run id -> nothing: deleted runs whose state is kept
	TableInbox     = 'i' // command seq u64be -> command
	TableSeen      = 'd' // of format 3: id of a command -> 1
	TableOutput    = 'o' // run id 0x00 index u64be -> chunk
	TableSchedule  = 'u' // id of a schedule -> schedule
	TableHook      = 'h' // token -> holder
	TableQueue     = 'y' // workflow 0x00, key of a cell -> cell of the queue of its runs
	TableLog       = 'g' // run id 0x00 index u64be -> log line
	TableNamespace = 'N' // name -> namespace; the partition is NoPartition here and below
	TableToken     = 'A' // SHA-256 -> token of a caller
	TableMeta      = 'm' // name -> value
	TableModule    = 'M' // SHA-256 -> info
	TableWasm      = 'W' // SHA-256 -> bytes of a module
	TableUses      = 'U' // SHA-256 -> u64be: number of versions that have the module
	TableUnused    = 'O' // SHA-256 -> nothing: modules that have got no version since Put
	TableBlob      = 'B' // SHA-256 -> bytes of a large payload, or of a module stored before there was TableWasm
	TableRetention = 'R' // namespace u32be, workflow -> retention, under namespace 0
	TableQuota     = 'Q' // namespace u32be -> quota, under namespace 0
	TableLimits    = 'L' // namespace u32be, workflow -> limits, under namespace 0
	TableRefers    = 'p' // run id 0x00 SHA-256 -> nothing: large payloads of a run
	TableReferred  = 'P' // SHA-256, namespace u32be, run id -> nothing: runs of a payload; SHA-256 alone: never deleted
	TableWorkflow  = 'V' // workflow 0x00 number u32be -> version
	TableKey       = 'K' // id -> key with which payloads are encoded
)

// NoPartition is the partition field of keys that belong to the whole store.
const NoPartition PartitionID = 0xffff

// AppendPrefix appends the beginning of a key: namespace u32be, partition u16be, table.
func AppendPrefix(dst []byte, ns NamespaceID, p PartitionID, table byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(ns))
	return append(binary.BigEndian.AppendUint16(dst, uint16(p)), table)
}

// prefixBytes is the length of what AppendPrefix writes.
const prefixBytes = 7

// RunTableKey returns the key of a run in a table whose keys end with the run id.
func RunTableKey(run RunKey, table byte) []byte {
	k := make([]byte, 0, prefixBytes+len(run.ID)+suffixBytes)
	return append(AppendPrefix(k, run.Namespace, run.Partition(), table), run.ID...)
}

// suffixBytes is the longest usual suffix of a run's keys, that of JournalKey. With room for it, a key is allocated once.
const suffixBytes = 1 + 4 + 8

// JournalKey returns the key of a chunk of a journal by the seq of its first entry.
func JournalKey(run RunKey, iteration uint32, first Seq) []byte {
	k := append(RunTableKey(run, TableJournal), 0)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k, iteration), uint64(first))
}

// IndexKey returns the key of a log line or a piece of output by its index.
func IndexKey(run RunKey, table byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(RunTableKey(run, table), 0), index)
}

// RefersKey returns the key that records that a run has a large payload. Without a digest, it returns the prefix of all
// such keys of the run.
func RefersKey(run RunKey, digest []byte) []byte {
	return append(append(RunTableKey(run, TableRefers), 0), digest...)
}

// ReferredKey returns the key that records which run has a large payload.
func ReferredKey(digest []byte, run RunKey) []byte {
	return append(binary.BigEndian.AppendUint32(GlobalKey(0, TableReferred, digest), uint32(run.Namespace)), run.ID...)
}

// EndedKey returns the key of a run in the table of ended runs. A negative time counts as zero.
func EndedKey(run RunKey, endUnixMs int64) []byte {
	k := AppendPrefix(nil, run.Namespace, run.Partition(), TableEnded)
	return append(binary.BigEndian.AppendUint64(k, uint64(max(endUnixMs, 0))), run.ID...)
}

// DeletedKey returns the key of a deleted run in the table of deleted runs whose state is kept.
func DeletedKey(run RunKey, unixMs int64) []byte {
	k := AppendPrefix(nil, run.Namespace, run.Partition(), TableDeleted)
	return append(binary.BigEndian.AppendUint64(k, uint64(max(unixMs, 0))), run.ID...)
}

// StatusTable returns the key prefix of the list of runs with a status in a namespace and partition.
func StatusTable(ns NamespaceID, p PartitionID, s Status) []byte {
	return append(AppendPrefix(nil, ns, p, TableStatus), byte(s))
}

// WorkflowTable returns the key prefix of the runs of a workflow.
func WorkflowTable(ns NamespaceID, p PartitionID, workflow string) []byte {
	return append(append(AppendPrefix(nil, ns, p, TableOf), workflow...), 0)
}

// attributeBytes is the length of an attribute's digest in a key. Two attributes hardly ever share it; if they do, the
// run's state decides.
const attributeBytes = 16

// AttributeTable returns the key prefix of the runs with an attribute. It has a digest, since a value has up to 1,024
// bytes.
func AttributeTable(ns NamespaceID, p PartitionID, a Attribute) []byte {
	text := make([]byte, 0, 128)
	text = append(append(append(text, a.Key...), 0), a.Value...)
	d := sha256.Sum256(text)
	return append(AppendPrefix(nil, ns, p, TableWith), d[:attributeBytes]...)
}

// AppendPosition appends a position to the key prefix of a list: the time with its sign bit inverted, u64be, so that
// keys sort by time, then the id.
func AppendPosition(prefix []byte, at Position) []byte {
	return append(AppendTime(prefix, at.UnixMs), at.ID...)
}

// AppendTime appends the time of a position without the id.
func AppendTime(prefix []byte, unixMs int64) []byte {
	return binary.BigEndian.AppendUint64(prefix, uint64(unixMs)^1<<63)
}

// ParseListKey reads what AppendPosition appended.
func ParseListKey(rest []byte) (Position, error) {
	if len(rest) <= 8 {
		return Position{}, fmt.Errorf("%w: place of %d bytes in a list", ErrCorrupt, len(rest))
	}
	return Position{int64(binary.BigEndian.Uint64(rest) ^ 1<<63), string(rest[8:])}, nil
}

// CountKey returns the key of the counts of a version of a workflow. The keys of all namespaces are under namespace 0,
// so that opening a store reads them with one scan of each partition.
func CountKey(p PartitionID, ns NamespaceID, workflow string, version uint32) []byte {
	k := binary.BigEndian.AppendUint32(AppendPrefix(nil, 0, p, TableCount), uint32(ns))
	return binary.BigEndian.AppendUint32(append(append(k, workflow...), 0), version)
}

// ParseCountKey reads what CountKey made.
func ParseCountKey(k []byte) (ns NamespaceID, workflow string, version uint32, err error) {
	const fixed = prefixBytes + 4 + 1 + 4
	if len(k) < fixed {
		return 0, "", 0, fmt.Errorf("%w: key of counts of %d bytes", ErrCorrupt, len(k))
	}
	ns = NamespaceID(binary.BigEndian.Uint32(k[prefixBytes:]))
	return ns, string(k[prefixBytes+4 : len(k)-5]), binary.BigEndian.Uint32(k[len(k)-4:]), nil
}

// BusyTable returns the key prefix of a namespace's busy runs. Like counts, the busy runs of all namespaces are under
// namespace 0.
func BusyTable(p PartitionID, ns NamespaceID) []byte {
	return binary.BigEndian.AppendUint32(AppendPrefix(nil, 0, p, TableBusy), uint32(ns))
}

// ParseBusyKey reads the namespace from the key of a busy run.
func ParseBusyKey(k []byte) (NamespaceID, error) {
	if len(k) <= prefixBytes+4+8 {
		return 0, fmt.Errorf("%w: key of a busy run of %d bytes", ErrCorrupt, len(k))
	}
	return NamespaceID(binary.BigEndian.Uint32(k[prefixBytes:])), nil
}

// wakeTag is the first byte of the suffix of a wake, unless the wake is of a run of the default namespace. No run id
// begins with it.
const wakeTag = 0

// wakeTagBytes is the length of such a suffix before the id: tag u8, kind u8, namespace u32be.
const wakeTagBytes = 6

// WakeIndexKey returns the key of a wake in the index of a partition. The wakes of all namespaces are under namespace
// 0, so that one scan reads them in the order of WakeKey.Compare. A negative time counts as zero.
func WakeIndexKey(p PartitionID, w WakeKey) []byte {
	k := make([]byte, 0, prefixBytes+8+wakeTagBytes+len(w.Key.ID)+1) // and a byte of capacity for the key after it
	k = AppendPrefix(k, 0, p, TableWake)
	k = binary.BigEndian.AppendUint64(k, uint64(max(w.UnixMs, 0)))
	if w.tagged() {
		k = binary.BigEndian.AppendUint32(append(k, wakeTag, byte(w.Kind)), uint32(w.Key.Namespace))
	}
	return append(k, w.Key.ID...)
}

// ParseWakeIndexKey reads what WakeIndexKey made. It returns ErrVersion for an unknown kind of wake, which a newer
// release wrote.
func ParseWakeIndexKey(k []byte) (w WakeKey, err error) {
	const timeEnd = prefixBytes + 8
	if len(k) <= timeEnd || k[prefixBytes]&0x80 != 0 {
		return w, fmt.Errorf("%w: wake key %x", ErrCorrupt, k)
	}
	w.UnixMs = int64(binary.BigEndian.Uint64(k[prefixBytes:]))
	rest := k[timeEnd:]
	if rest[0] != wakeTag {
		w.Key.ID = string(rest)
		return w, nil
	}
	if len(rest) < wakeTagBytes {
		return WakeKey{}, fmt.Errorf("%w: wake key %x", ErrCorrupt, k)
	}
	w.Kind = WakeKind(rest[1])
	w.Key = RunKey{Namespace: NamespaceID(binary.BigEndian.Uint32(rest[2:])), ID: string(rest[wakeTagBytes:])}
	switch {
	case !w.tagged():
		return WakeKey{}, fmt.Errorf("%w: wake key %x", ErrCorrupt, k)
	case !w.Kind.Known():
		return WakeKey{}, fmt.Errorf("%w: wake of the unknown kind %d", ErrVersion, w.Kind)
	}
	return w, nil
}

// ParseRunTableKey reads what RunTableKey made.
func ParseRunTableKey(k []byte) (RunKey, error) {
	if len(k) <= prefixBytes {
		return RunKey{}, fmt.Errorf("%w: run key of %d bytes", ErrCorrupt, len(k))
	}
	return RunKey{Namespace: NamespaceID(binary.BigEndian.Uint32(k)), ID: string(k[prefixBytes:])}, nil
}

// VersionKey returns the key of a version of a workflow; number 0 returns the prefix of all of its versions.
func VersionKey(ns NamespaceID, workflow string, number uint32) []byte {
	k := append(append(AppendPrefix(nil, ns, NoPartition, TableWorkflow), workflow...), 0)
	if number == 0 {
		return k
	}
	return binary.BigEndian.AppendUint32(k, number)
}

// GlobalKey returns a key of a table that belongs to the whole store.
func GlobalKey(ns NamespaceID, table byte, rest []byte) []byte {
	return append(AppendPrefix(nil, ns, NoPartition, table), rest...)
}

// PrefixEnd returns the first key after all keys with the prefix.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
