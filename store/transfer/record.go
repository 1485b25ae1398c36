package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// Kind is a kind of records. Export returns the kinds of the whole store first, in their order. Then come all runs: each Run is
// followed by its Entries by iteration and seq, its LogLines and its Outputs by index. The other kinds follow in their order.
// Records of a kind have no order otherwise.
type Kind uint8

// The kinds. Data is the record that FORMAT.md describes, sealed or not, if no other bytes are named.
const (
	Namespace Kind = iota // Data
	SealKey               // Data
	Token                 // Data
	Quota                 // Data
	Retention             // Data
	Limits                // Data
	Module                // Key: SHA-256; Data: its information; Wasm: its bytes
	Version               // Data; also of deleted versions that determine the next number
	Partition             // Partition; Epoch; Seq: the newest number of its inbox
	Run                   // Namespace, ID; Listed; Data: its state; also of deleted runs
	Entry                 // Namespace, ID; Iteration; Seq; Data, with its payloads in it
	LogLine               // Namespace, ID; Seq: its index; Data
	Output                // Namespace, ID; Seq: its index; Data
	Command               // Partition; Seq: its number; Data, with the number 0 unless it cannot be decoded
	Schedule              // Namespace, ID; Data
	Wake                  // Partition; Wake; of no run and no schedule, whose wakes are in their records
	Hook                  // Namespace; ID: the token; Data: its holder
	Cell                  // Namespace; ID: the queue; Key; Data: the value
	kinds
)

var kindNames = [kinds]string{"namespaces", "encryption keys", "tokens", "quotas", "retentions", "limits", "modules", "versions",
	"partitions", "runs", "entries", "log lines", "chunks of output", "commands", "schedules", "wakes", "hooks", "queue cells"}

// String returns the name of the kind in the plural.
func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Kinds returns all kinds in their order.
func Kinds() []Kind {
	list := make([]Kind, kinds)
	for i := range list {
		list[i] = Kind(i)
	}
	return list
}

// A Record is a durable record, without what a store derives from other records. Kind says which fields are set.
type Record struct {
	Kind      Kind
	Namespace store.NamespaceID
	ID        string
	Partition store.PartitionID
	Epoch     store.Epoch
	Iteration uint32
	Seq       uint64
	Listed    store.Status // whose list has the run: see FORMAT.md; 0 for none, as for deleted runs
	Wake      store.Wake
	Key       []byte
	Data      []byte
	Wasm      []byte
}

// String names the record for people.
func (r *Record) String() string {
	what := r.Kind.String()
	switch r.Kind {
	case Run, Entry, LogLine, Output:
		return fmt.Sprintf("run %q of namespace %d, %s, iteration %d, number %d", r.ID, r.Namespace, what, r.Iteration, r.Seq)
	case Command, Partition:
		return fmt.Sprintf("%s, partition %d, number %d", what, r.Partition, r.Seq)
	case Schedule, Hook, Cell:
		return fmt.Sprintf("%s, %q of namespace %d", what, r.ID, r.Namespace)
	case Wake:
		return fmt.Sprintf("%s, %q of namespace %d", what, r.Wake.Key.Key.ID, r.Wake.Key.Key.Namespace)
	}
	return what
}

// Run returns the key of the run, schedule or queue that the record belongs to.
func (r *Record) Run() store.RunKey { return store.RunKey{Namespace: r.Namespace, ID: r.ID} }

// AppendTo appends all fields, so that two records are equal if and only if these bytes are.
func (r *Record) AppendTo(b []byte) []byte {
	b = append(b, byte(r.Kind), byte(r.Listed), byte(r.Wake.Key.Kind))
	for _, n := range []uint64{uint64(r.Namespace), uint64(r.Partition), uint64(r.Epoch), uint64(r.Iteration), r.Seq,
		uint64(r.Wake.Key.UnixMs), uint64(r.Wake.DueUnixMs), uint64(r.Wake.Key.Key.Namespace)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, text := range []string{r.ID, r.Wake.Key.Key.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	for _, v := range [][]byte{r.Key, r.Data, r.Wasm} {
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return b
}

// sum is what is known of the records of one kind. Their order does not matter.
type sum struct {
	records, bytes int64
	sum            [sha256.Size]byte // the SHA-256 of the records, added up modulo 2^256
}

type sums struct {
	kinds [kinds]sum
	b     []byte
}

func (s *sums) add(r *Record) {
	s.b = r.AppendTo(s.b[:0])
	x := &s.kinds[r.Kind]
	x.records++
	x.bytes += int64(len(r.Key) + len(r.Data) + len(r.Wasm))
	d := sha256.Sum256(s.b)
	carry := uint16(0)
	for i := len(d) - 1; i >= 0; i-- {
		carry += uint16(x.sum[i]) + uint16(d[i])
		x.sum[i] = byte(carry)
		carry >>= 8
	}
}

// Sum describes the records of one kind.
type Sum struct {
	Kind    Kind   `json:"kind"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`    // of their content
	SHA256  string `json:"checksum"` // the SHA-256 of the records, added up
}

// list returns the kinds with records.
func (s *sums) list() (list []Sum) {
	for k := range kinds {
		if x := &s.kinds[k]; x.records > 0 {
			list = append(list, Sum{k, x.records, x.bytes, hex.EncodeToString(x.sum[:])})
		}
	}
	return list
}
