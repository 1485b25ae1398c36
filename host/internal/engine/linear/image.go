package linear

import (
	"bytes"
	"sync/atomic"
)

// Image is the memory that every instance of a module starts from. It does not change. Where the system can share it, it is
// not on the Go heap: then bytes is a read-only mapping, which stays until the image is closed and no memory uses it.
type Image struct {
	bytes   []byte
	mapping // how the system shares it between instances

	users atomic.Int64          // its memories, and one until Close
	model atomic.Pointer[model] // what memories are compared with; nil until the first one was
}

// Portion is how many bytes of a memory are written or hashed before other goroutines go first: about a millisecond. Go takes a
// processor after ten, and an image may be of 64 MiB.
const Portion = 1 << 20

// NewImage makes a copy of a memory the image. A Reset that the system does not know becomes the next one.
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

// Close releases the image. Memories that there are stay valid; no other may be made.
func (im *Image) Close() { im.leave() }

// leave ends one use of the image. After the last one, what the system shares is given back.
func (im *Image) leave() {
	if im.users.Add(-1) == 0 {
		im.close()
	}
}
