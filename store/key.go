package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Tables of the key space, as the byte after namespace and partition. See FORMAT.md.
const (
	TableEpoch    = 'e' // -> u64be epoch; 'i' and 'w' -> u64be of inbox and wake index
	TableState    = 's' // run id -> state
	TableJournal  = 'j' // run id 0x00 iteration u32be, first seq u64be -> chunk of entries
	TableWake     = 'w' // time u64be, run id, or 0x00 kind u8 namespace u32be id -> true deadline
	TableLive     = 'l' // run id -> nothing
	TableStuck    = 'a' // run id -> nothing: runs that need attention
	TableEnded    = 't' // end time u64be, run id -> nothing
	TableInbox    = 'i' // command seq u64be -> command
	TableSeen     = 'd' // command id -> nothing
	TableOutput   = 'o' // run id 0x00 index u64be -> chunk
	TableHook     = 'h' // token -> holder
	TableLog      = 'g' // run id 0x00 index u64be -> log line
	TableSpace    = 'N' // name -> namespace; the partition is NoPartition here and below
	TableMeta     = 'm' // name -> value
	TableModule   = 'M' // SHA-256 -> info
	TableWasm     = 'W' // SHA-256 -> bytes of a module
	TableBlob     = 'B' // SHA-256 -> bytes of a large payload, or of a module stored before there was TableWasm
	TableWorkflow = 'V' // workflow 0x00 number u32be -> version
)

// NoPartition is the partition field of keys that belong to the whole store.
const NoPartition PartitionID = 0xffff

// AppendPrefix begins a key: namespace u32be, partition u16be, table.
func AppendPrefix(dst []byte, ns NamespaceID, p PartitionID, table byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(ns))
	return append(binary.BigEndian.AppendUint16(dst, uint16(p)), table)
}

// prefixBytes is the length of what AppendPrefix writes.
const prefixBytes = 7

// RunTableKey gives the key of a run in a table that is keyed by the run id alone.
func RunTableKey(run RunKey, table byte) []byte {
	return append(AppendPrefix(nil, run.Namespace, run.Partition(), table), run.ID...)
}

// JournalKey gives the key of a chunk of a journal by the seq of its first entry.
func JournalKey(run RunKey, iteration uint32, first Seq) []byte {
	k := append(RunTableKey(run, TableJournal), 0)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k, iteration), uint64(first))
}

// IndexKey gives the key of a log line or a piece of output by its index.
func IndexKey(run RunKey, table byte, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append(RunTableKey(run, table), 0), index)
}

// EndedKey returns the key of a run in the table of ended runs. A negative time counts as zero.
func EndedKey(run RunKey, endUnixMs int64) []byte {
	k := AppendPrefix(nil, run.Namespace, run.Partition(), TableEnded)
	return append(binary.BigEndian.AppendUint64(k, uint64(max(endUnixMs, 0))), run.ID...)
}

// wakeTag begins the suffix of a wake that is not of a run of the default namespace. No run id begins with it.
const wakeTag = 0

// wakeTagBytes is the length of such a suffix before the id: tag u8, kind u8, namespace u32be.
const wakeTagBytes = 6

// WakeIndexKey returns the key of a wake in the index of a partition. The wakes of all namespaces stand under
// namespace 0, so that one scan finds them in the order of WakeKey.Compare. A negative time counts as zero.
func WakeIndexKey(p PartitionID, w WakeKey) []byte {
	k := make([]byte, 0, prefixBytes+8+wakeTagBytes+len(w.Key.ID)+1) // and one more byte for the key after it
	k = AppendPrefix(k, 0, p, TableWake)
	k = binary.BigEndian.AppendUint64(k, uint64(max(w.UnixMs, 0)))
	if w.tagged() {
		k = binary.BigEndian.AppendUint32(append(k, wakeTag, byte(w.Kind)), uint32(w.Key.Namespace))
	}
	return append(k, w.Key.ID...)
}

// ParseWakeIndexKey reads what WakeIndexKey made. It returns ErrVersion for a kind of wake that a newer release
// has written.
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

// VersionKey gives the key of a version of a workflow; number 0 gives the prefix of all of its versions.
func VersionKey(ns NamespaceID, workflow string, number uint32) []byte {
	k := append(append(AppendPrefix(nil, ns, NoPartition, TableWorkflow), workflow...), 0)
	if number == 0 {
		return k
	}
	return binary.BigEndian.AppendUint32(k, number)
}

// GlobalKey gives a key of a table that belongs to the whole store.
func GlobalKey(ns NamespaceID, table byte, rest []byte) []byte {
	return append(AppendPrefix(nil, ns, NoPartition, table), rest...)
}

// PrefixEnd gives the first key after all keys with the prefix.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
