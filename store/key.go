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
	TableWake     = 'w' // time u64be, run id -> true deadline
	TableLive     = 'l' // run id -> nothing
	TableStuck    = 'a' // run id -> nothing: runs that need attention
	TableEnded    = 't' // end time u64be, run id -> nothing
	TableInbox    = 'i' // command seq u64be -> command
	TableSeen     = 'd' // command id -> nothing
	TableOutput   = 'o' // run id 0x00 index u64be -> chunk
	TableHook     = 'h' // token -> holder
	TableLog      = 'g' // run id 0x00 index u64be -> log line
	TableMeta     = 'm' // name -> value; the partition is NoPartition here and below
	TableModule   = 'M' // SHA-256 -> info
	TableBlob     = 'B' // SHA-256 -> bytes
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

// TimeKey gives the key of a run in a table that is ordered by time. Negative times do not occur: they are
// clamped to zero.
func TimeKey(run RunKey, table byte, unixMs int64) []byte {
	k := AppendPrefix(nil, run.Namespace, run.Partition(), table)
	return append(binary.BigEndian.AppendUint64(k, uint64(max(unixMs, 0))), run.ID...)
}

// ParseTimeKey reads what TimeKey made.
func ParseTimeKey(k []byte) (WakeKey, error) {
	if len(k) < prefixBytes+9 {
		return WakeKey{}, fmt.Errorf("%w: time key of %d bytes", ErrCorrupt, len(k))
	}
	ns := NamespaceID(binary.BigEndian.Uint32(k))
	return WakeKey{UnixMs: int64(binary.BigEndian.Uint64(k[prefixBytes:])),
		Run: RunKey{Namespace: ns, ID: string(k[prefixBytes+8:])}}, nil
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
