// Package artifact stores compiled modules on disk: beside the machine code, what an engine must know of a module to
// run that code. Loading an artifact does not need the original module: its code is neither read, checked nor held in
// memory.
package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// Format is part of the name of each file. It must grow when the format of files or the rewriting of modules changes:
// then all modules are compiled again. A test compares the rewriting of some modules with what it was when Format was
// set.
const Format = 5

// Artifact describes a compiled module. With the code, its fields are all that instances need.
type Artifact struct {
	// Module is the rewritten module. Its Wasm is the skeleton.
	Module instrument.Module
	// Code is the file with the machine code.
	Code File
}

// File identifies a file and its content.
type File struct {
	Folder string // a name
	Name   string
	Bytes  int64
	Sum    uint32 // CRC-32C
}

// magic begins each file.
const magic = "wfhost module\n"

// head precedes the skeleton and the segments, as JSON.
type head struct {
	Module   instrument.Module // without bytes
	Code     File
	Skeleton int   // bytes
	Segments []int // bytes of each
}

// Encode returns the content of a file: magic, the length of the head as u32be, head, skeleton, segments, and the
// SHA-256 of everything before it.
func (a *Artifact) Encode() ([]byte, error) {
	h := head{Module: a.Module, Code: a.Code, Skeleton: len(a.Module.Wasm)}
	h.Module.Wasm, h.Module.Data = nil, nil
	size := len(a.Module.Wasm)
	for _, s := range a.Module.Data {
		h.Module.Data = append(h.Module.Data, instrument.Segment{Offset: s.Offset})
		h.Segments = append(h.Segments, len(s.Bytes))
		size += len(s.Bytes)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(magic)+4+len(text)+size+sha256.Size)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	b = append(append(b, text...), a.Module.Wasm...)
	for _, s := range a.Module.Data {
		b = append(b, s.Bytes...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// ErrDamaged is wrapped by errors about a file whose content has changed.
var ErrDamaged = errors.New("damaged")

// Decode decodes a file. Module.Wasm and Module.Data alias b.
func Decode(b []byte) (*Artifact, error) {
	n := len(b) - sha256.Size
	if n < len(magic)+4 || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: a file of %d bytes that does not begin with %q", ErrDamaged, len(b), magic)
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, fmt.Errorf("%w: its SHA-256 is another one", ErrDamaged)
	}
	rest := b[len(magic):n]
	length := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if int64(length) > int64(len(rest)) {
		return nil, fmt.Errorf("%w: a head of %d bytes in %d", ErrDamaged, length, len(rest))
	}
	var h head
	if err := json.Unmarshal(rest[:length], &h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	rest = rest[length:]
	part := func(n int) (p []byte) {
		if n < 0 || n > len(rest) {
			n = 0
			h.Skeleton = -1
		}
		p, rest = rest[:n:n], rest[n:]
		return p
	}
	a := &Artifact{Module: h.Module, Code: h.Code}
	a.Module.Wasm = part(h.Skeleton)
	if len(h.Segments) != len(a.Module.Data) {
		return nil, fmt.Errorf("%w: %d segments of %d", ErrDamaged, len(a.Module.Data), len(h.Segments))
	}
	for i, n := range h.Segments {
		a.Module.Data[i].Bytes = part(n)
	}
	if h.Skeleton < 0 || len(rest) > 0 {
		return nil, fmt.Errorf("%w: its parts are longer or shorter than it", ErrDamaged)
	}
	return a, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Measure sets Bytes and Sum to those of the file at a path.
func (f *File) Measure(path string) error {
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it is only read
	h := crc32.New(castagnoli)
	f.Bytes, err = io.Copy(h, r)
	f.Sum = h.Sum32()
	return err
}

// Check compares a file with its earlier content, and returns its FileInfo, by which the caller detects a later
// replacement. It finds damage, not attacks: a process that can write into the folder can make the host execute
// anything.
func (f *File) Check(path string) (os.FileInfo, error) {
	is := File{Folder: f.Folder, Name: f.Name}
	info, err := os.Stat(path)
	if err == nil {
		err = is.Measure(path)
	}
	if err == nil && is != *f {
		err = fmt.Errorf("%w: the code has %d bytes with CRC %08x, it was %d with %08x", ErrDamaged, is.Bytes, is.Sum, f.Bytes, f.Sum)
	}
	return info, err
}
