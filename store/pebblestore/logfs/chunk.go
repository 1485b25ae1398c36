package logfs

import (
	"encoding/binary"
	"hash/crc32"
)

// A file of records, which is the log or the list of tables of a database, is a sequence of blocks, and a block is a
// sequence of chunks:
//
//	0         4         6     7            11                  19
//	| CRC-32C | length  | kind| log number | durable offset    | bytes …
//	| u32 le  | u16 le  | u8  | u32 le, of | u64 le, of kinds  |
//	|         |         |     | kinds 5-12 | 9-12              |
//
// Kinds 1 to 4 are a whole record and the first, middle and last part of a record. Kinds 5 to 8 and 9 to 12 have the
// same meanings. A chunk of kinds 9 to 12 records how much of the log was durable when it was made. An orderly end is a
// chunk of kind 5 without bytes and CRC, and with the next number.
const (
	blockBytes   = 32 << 10
	plainHeader  = 7
	numberHeader = 11
	syncedHeader = 19

	lastPlain  = 4
	endKind    = 5
	lastNumber = 8
	lastSynced = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a chunk from its kind on, masked as Pebble does.
func checksum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli, b)
	return (c>>15 | c<<17) + 0xa282ead8
}

// chunk is a decoded chunk at the beginning of a byte slice.
type chunk struct {
	kind   byte
	size   int // with its header
	number uint32
	synced uint64
}

// headerBytes returns the length of the header of a kind, 0 if there is no such kind.
func headerBytes(kind byte) int {
	switch {
	case kind == 0 || kind > lastSynced:
		return 0
	case kind <= lastPlain:
		return plainHeader
	case kind <= lastNumber:
		return numberHeader
	}
	return syncedHeader
}

// read reads a chunk, whose checksum must be right unless it is an orderly end.
func read(b []byte) (c chunk, ok bool) {
	if len(b) < plainHeader {
		return c, false
	}
	c.kind = b[6]
	header := headerBytes(c.kind)
	c.size = header + int(binary.LittleEndian.Uint16(b[4:]))
	if header == 0 || c.size > len(b) {
		return c, false
	}
	if header >= numberHeader {
		c.number = binary.LittleEndian.Uint32(b[7:])
	}
	if header == syncedHeader {
		c.synced = binary.LittleEndian.Uint64(b[11:])
	}
	sum := binary.LittleEndian.Uint32(b)
	if c.kind == endKind && c.size == header && sum == 0 {
		return c, true
	}
	return c, sum == checksum(b[6:c.size])
}

// isEnd reports whether the chunk is the orderly end of a log.
func (c *chunk) isEnd(number uint32) bool {
	return c.kind == endKind && c.size == numberHeader && c.number == number+1
}

// Damaged checks a log, or the list of tables, whose number is 0. It returns how far it can be read, and whether a
// later chunk proves that more was durable. Pebble takes the end of the readable part for the end that a power cut
// leaves, and opens the database without the rest: in a log it checks only later blocks, in the list nothing.
func Damaged(b []byte, number uint32) (end int, damaged bool) {
	end = sound(b, number)
	for from := end; from < len(b); from = (from/blockBytes + 1) * blockBytes {
		block := b[from:min(len(b), (from/blockBytes+1)*blockBytes)]
		if from == end { // the next chunk of this block may begin anywhere
			for i := 1; i < len(block); i++ {
				if c, ok := read(block[i:]); ok && c.proves(number, end) && (number == 0 || c.agrees(block, from, i)) {
					return end, true
				}
			}
			continue
		}
		for len(block) > 0 {
			c, ok := read(block)
			if !ok {
				break
			}
			if c.proves(number, end) {
				return end, true
			}
			block = block[c.size:]
		}
	}
	return end, false
}

// proves reports whether a chunk shows that the bytes at an offset before it were durable. In the list of tables, each
// record is durable before the next one is written.
func (c *chunk) proves(number uint32, offset int) bool {
	if number == 0 {
		return (c.kind == 1 || c.kind == 2) && c.size > plainHeader
	}
	return c.kind > lastNumber && c.number == number && c.synced > uint64(offset)
}

// agrees reports whether a chunk found at i of a block can be genuine. The block begins at offset from. The durable
// offset in the chunk must not be behind the chunk, and another chunk of the log must begin there. Payloads are in the
// log unchanged: without this check, a payload that looks like chunks could make wfhost refuse the store after a power
// cut. The sender of such a payload knows neither its offset nor the number of the log.
func (c *chunk) agrees(block []byte, from, i int) bool {
	at := int64(c.synced) - int64(from) // not negative, since proves has accepted it
	if at < 0 || at > int64(i) {
		return false
	}
	next, ok := read(block[at:])
	return ok && next.kind > lastNumber && next.number == c.number
}

// sound returns how far a file can be read: to its orderly end, or to the first bytes that are not a chunk of it.
func sound(b []byte, number uint32) (at int) {
	for at < len(b) {
		rest := b[at:min(len(b), (at/blockBytes+1)*blockBytes)]
		if len(rest) < syncedHeader && isZero(rest) { // no other header has room in the block
			at += len(rest)
			continue
		}
		c, ok := read(rest)
		switch {
		case !ok:
			return at
		case number != 0 && c.isEnd(number):
			return len(b) // bytes of the file's former use may follow
		case c.kind > lastPlain && c.number != number:
			return at
		}
		at += c.size
	}
	return at
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// sayDurable sets the durable offset in whole chunks that are about to be written at an offset of a log. Pebble's own
// value is too low: it counts only its writes of partial blocks, and so misses damage behind the first large commit of
// a log.
func sayDurable(b []byte, offset, durable int64) {
	for len(b) > 0 {
		block := b[:min(int64(len(b)), blockBytes-offset%blockBytes)]
		c, ok := read(block)
		if !ok || c.kind <= lastNumber {
			b, offset = b[len(block):], offset+int64(len(block)) // the end of a block, or of the log
			continue
		}
		binary.LittleEndian.PutUint64(block[11:], uint64(max(durable, int64(c.synced))))
		binary.LittleEndian.PutUint32(block, checksum(block[6:c.size]))
		b, offset = b[c.size:], offset+int64(c.size)
	}
}
