package artifact

import (
	"crypto/sha256"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// Section ids (WebAssembly Core Specification 2.0, 5.5.2), and the length of the header before the sections.
const (
	secCustom   = 0
	secCode     = 10
	secData     = 11
	secCounts   = 12 // the number of data segments
	headerBytes = 8
)

// trapping is the body of each function of a skeleton: its size, no locals, unreachable, end.
var trapping = []byte{3, 0, 0, 0x0b}

// Skeleton returns a module that equals the given one except that its functions trap, so that an engine can run the
// machine code of the original under the skeleton. It contains the hash of the original: no two modules have the same
// skeleton.
func Skeleton(source []byte) ([]byte, error) {
	out, err := withoutCode(source, func(byte, []byte) {})
	if err != nil {
		return nil, fmt.Errorf("skeleton: %w", err)
	}
	of := sha256.Sum256(source)
	own := append(wasm.AppendText(nil, "wfhost"), of[:]...)
	return append(wasm.AppendU32(append(out, secCustom), uint32(len(own))), own...), nil
}

// withoutCode returns the module with trapping functions and without custom sections other than names. It calls visit
// with the id and the original content of each remaining section.
func withoutCode(source []byte, visit func(id byte, content []byte)) ([]byte, error) {
	r := wasm.Reader{Module: source, End: len(source)}
	r.Skip(headerBytes, "the header")
	out := append(make([]byte, 0, len(source)/4), source[:r.At]...)
	for r.More() {
		from := r.At
		id := r.Byte("a section")
		content := r.Bytes("a section")
		switch {
		case id == secCustom && !isNames(content):
			continue
		case id == secCode:
			in := wasm.Reader{Module: content, End: len(content)}
			n := in.Count("functions")
			if r.Err == nil {
				r.Err = in.Err
			}
			size := wasm.AppendU32(nil, uint32(n))
			out = wasm.AppendU32(append(out, id), uint32(len(size)+n*len(trapping)))
			out = append(out, size...)
			for range n {
				out = append(out, trapping...)
			}
		default:
			out = append(out, source[from:r.At]...)
		}
		visit(id, content)
	}
	return out, r.Err
}

// isNames reports whether a custom section holds the names of functions, which stack traces show.
func isNames(content []byte) bool {
	r := wasm.Reader{Module: content, End: len(content)}
	return string(r.Bytes("a name")) == "name"
}
