package artifact

import (
	"crypto/sha256"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/wasm"
)

// Sections (WebAssembly Core Specification 2.0, 5.5.2), and the length of what is in front of them.
const (
	secCustom   = 0
	secCode     = 10
	secData     = 11
	secCounts   = 12 // the segments of data
	headerBytes = 8
)

// trapping is the body of each function of a skeleton: its size, no locals, unreachable, end.
var trapping = []byte{3, 0, 0, 0x0b}

// Skeleton returns a module that has all that the given one has, but for what its functions do, so that an engine that has
// the machine code of the one can be told that it is the code of the other. It names the module that it was made from: no
// two modules have the same skeleton.
func Skeleton(source []byte) ([]byte, error) {
	out, err := withoutCode(source, func(byte, []byte) {})
	if err != nil {
		return nil, fmt.Errorf("skeleton: %w", err)
	}
	of := sha256.Sum256(source)
	own := append(wasm.AppendText(nil, "wfhost"), of[:]...)
	return append(wasm.AppendU32(append(out, secCustom), uint32(len(own))), own...), nil
}

// withoutCode returns a module whose functions trap, without custom sections other than names, and calls visit with the id and
// the content of each section that remains, as it was.
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

// isNames reports whether a custom section has the names of functions, which stacks show.
func isNames(content []byte) bool {
	r := wasm.Reader{Module: content, End: len(content)}
	return string(r.Bytes("a name")) == "name"
}
