package linear

import (
	"bytes"
	"sync/atomic"
)

// Image is the initial memory of all instances of a module. It is immutable. If the system can share it, it is
// outside of the Go heap: then bytes is a read-only mapping, which lives until the image is closed and no memory uses
// it.
type Image struct {
	bytes   []byte
	mapping // how the system shares it between instances

	users atomic.Int64          // its memories, plus one until Close
	model atomic.Pointer[model] // nil until the first memory was compared
}

// Portion is how many bytes of a memory are written or hashed between two yields to other goroutines: about a
// millisecond. Go preempts only after ten, and an image may be 64 MiB.
const Portion = 1 << 20

// NewImage copies a memory into an image. If the system does not support a Reset, the next one is used.
func NewImage(memory []byte, reset Reset) *Image {
	im := &Image{}
	im.users.Store(1)
	if !im.share(memory, reset) {
		im.bytes = bytes.Clone(memory)
	}
	return im
}

// Size returns the number of bytes.
func (im *Image) Size() int { return len(im.bytes) }

// Close releases the image. Existing memories stay valid; no new ones may be made.
func (im *Image) Close() { im.leave() }

// leave ends one use of the image. The last call releases the mapping.
func (im *Image) leave() {
	if im.users.Add(-1) == 0 {
		im.close()
	}
}
