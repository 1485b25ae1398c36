package linear

import (
	"bytes"
	"sync/atomic"
)

// Image is the memory that every instance of a module starts from. It does not change.
type Image struct {
	bytes   []byte
	mapping // how the system shares it between instances

	model atomic.Pointer[model] // what memories are compared with; nil until the first one was
}

// NewImage makes a copy of a memory the image. A Reset that the system does not know becomes the next one.
func NewImage(memory []byte, reset Reset) *Image {
	im := &Image{bytes: bytes.Clone(memory)}
	im.share(reset)
	return im
}

// Size returns the number of bytes.
func (im *Image) Size() int { return len(im.bytes) }

// Close lets go of what is shared. Memories that there are stay valid.
func (im *Image) Close() { im.close() }
