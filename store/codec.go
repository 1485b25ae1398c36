package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// CodecVersion is the first byte of every record. Zero is never written, so that a zeroed block is corrupt and not an
// old version; a greater version is ErrVersion.
const CodecVersion = 1

// FormatVersion is the version of a store as a whole: its tables and keys. A release opens stores of this version and
// of earlier ones, and raises the latter to this version, so that an earlier release refuses to open what it would
// misread.
//
//	1  the first
//	2  modules have a table of their own; wakes of other kinds and namespaces; a registry of namespaces
//	3  indexes of runs by creation, status, workflow and attribute; counts of runs
//	4  which runs have a large payload, which is deleted with the last of them; deleted runs by time; retentions;
//	   schedules
const FormatVersion = 4

// MaxRecordBytes bounds every record: a commit refuses a larger record, and so does decoding, before it allocates
// memory. The largest legal record is an entry with an input, options and a result of the largest legal size.
const MaxRecordBytes = 8 << 20

// castagnoli is CRC-32C (RFC 3720, appendix B.4), the polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A record is encoded as
//
//	+---------+-------------------- fields --------------------+----------+
//	| version | (tag u8, uvarint | tag u8, uvarint n, n bytes)…| crc u32le|
//	+---------+------------------------------------------------+----------+
//
// A tag's lowest bit says whether a number (0) or bytes (1) follow; the tag's number is above it. Zero numbers
// and empty bytes are left out; tags ascend. Signed numbers are zigzag coded. A tag that this release does not
// know makes the record ErrVersion.

type encoder struct{ b []byte }

func newRecord(dst []byte) (encoder, int) { return encoder{append(dst, CodecVersion)}, len(dst) }

func (e *encoder) uint(tag byte, v uint64) {
	if v != 0 {
		e.b = binary.AppendUvarint(append(e.b, tag<<1), v)
	}
}

func (e *encoder) int(tag byte, v int64) { e.uint(tag, uint64(v)<<1^uint64(v>>63)) }

func (e *encoder) bool(tag byte, v bool) {
	if v {
		e.uint(tag, 1)
	}
}

func (e *encoder) bytes(tag byte, v []byte) {
	if len(v) > 0 {
		e.b = append(binary.AppendUvarint(append(e.b, tag<<1|1), uint64(len(v))), v...)
	}
}

func (e *encoder) string(tag byte, v string) {
	if v != "" {
		e.b = append(binary.AppendUvarint(append(e.b, tag<<1|1), uint64(len(v))), v...)
	}
}

func (e *encoder) seal(from int) []byte {
	return binary.LittleEndian.AppendUint32(e.b, crc32.Checksum(e.b[from:], castagnoli))
}

// field is one decoded field.
type field struct {
	tag byte
	num uint64
	b   []byte
}

func (f field) int() int64 { return int64(f.num>>1) ^ -int64(f.num&1) }

// decode checks a record and hands its fields to take, which returns false for an unknown tag.
func decode(what string, b []byte, take func(field) bool) error {
	bad := func(why string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrCorrupt, what, fmt.Sprintf(why, args...))
	}
	switch {
	case len(b) < 5:
		return bad("%d bytes, at least 5 expected", len(b))
	case len(b) > MaxRecordBytes:
		return bad("%d bytes, at most %d expected", len(b), MaxRecordBytes)
	case b[0] == 0:
		return bad("version 0")
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return bad("wrong checksum")
	}
	if b[0] > CodecVersion {
		return fmt.Errorf("%w: %s has version %d, this release knows %d", ErrVersion, what, b[0], CodecVersion)
	}
	last := -1
	for rest := body[1:]; len(rest) > 0; {
		f := field{tag: rest[0]}
		if int(f.tag>>1) <= last {
			return bad("field %d after field %d", f.tag>>1, last)
		}
		last = int(f.tag >> 1)
		v, n := binary.Uvarint(rest[1:])
		if n <= 0 {
			return bad("field %d has no number", last)
		}
		rest = rest[1+n:]
		if f.tag&1 == 0 {
			f.num = v
		} else {
			if v > uint64(len(rest)) {
				return bad("field %d claims %d bytes, %d are left", last, v, len(rest))
			}
			f.b, rest = rest[:v:v], rest[v:]
		}
		f.tag >>= 1
		if !take(f) {
			return fmt.Errorf("%w: %s has the unknown field %d", ErrVersion, what, f.tag)
		}
	}
	return nil
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func small(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }

// AppendEntry encodes an entry.
func AppendEntry(dst []byte, x *Entry) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Seq))
	e.uint(2, uint64(x.Kind))
	e.int(3, x.UnixMs)
	e.int(4, x.Handle)
	e.uint(5, x.Consumed)
	e.string(6, x.Name)
	e.string(7, x.Target)
	e.bytes(8, x.Input)
	e.bytes(9, x.Options)
	e.int(10, int64(x.Refused))
	e.int(11, int64(x.Code))
	e.bytes(12, x.Data)
	e.int(13, x.DueUnixMs)
	e.bool(14, x.HasDue)
	e.uint(15, uint64(x.Attempt))
	e.int(16, x.StartUnixMs)
	e.bool(17, x.Skipped)
	e.uint(18, uint64(x.Ref))
	e.bool(19, x.Sealed)
	e.int(20, x.BehindMs)
	return e.seal(from)
}

// DecodeEntry decodes what AppendEntry made. The entry shares memory with b, which must not change.
func DecodeEntry(b []byte) (x Entry, err error) {
	err = decode("entry", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Seq = Seq(f.num)
		case 2:
			x.Kind = Kind(min(f.num, math.MaxUint8))
		case 3:
			x.UnixMs = f.int()
		case 4:
			x.Handle = f.int()
		case 5:
			x.Consumed = f.num
		case 6:
			x.Name = string(f.b)
		case 7:
			x.Target = string(f.b)
		case 8:
			x.Input = f.b
		case 9:
			x.Options = f.b
		case 10:
			x.Refused = int32(f.int())
		case 11:
			x.Code = int32(f.int())
		case 12:
			x.Data = f.b
		case 13:
			x.DueUnixMs = f.int()
		case 14:
			x.HasDue = f.num != 0
		case 15:
			x.Attempt = small(f.num)
		case 16:
			x.StartUnixMs = f.int()
		case 17:
			x.Skipped = f.num != 0
		case 18:
			x.Ref = Seq(f.num)
		case 19:
			x.Sealed = f.num != 0
		case 20:
			x.BehindMs = f.int()
		default:
			return false
		}
		return true
	})
	if err == nil && !x.Kind.Known() {
		err = fmt.Errorf("%w: entry %d has the unknown kind %d", ErrVersion, x.Seq, x.Kind)
	}
	return x, err
}
