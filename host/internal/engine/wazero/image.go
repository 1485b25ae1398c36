package wazero

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// image is what every instance of a module starts from: memory and globals as they are after the data segments, the
// start function and _initialize, which ran once, on a fixed clock and fixed random.
type image struct {
	id      [sha256.Size]byte // of the module, memory and globals: the image is the same when the module was loaded again
	memory  *linear.Image
	globals []uint64 // in the order of instance.globals
}

// newImage takes the image of an instance that was just made.
func newImage(in *instance, reset linear.Reset) *image {
	im := &image{memory: linear.NewImage(in.Memory(), reset)}
	for _, g := range in.globals {
		im.globals = append(im.globals, g.Get())
	}
	h := sha256.New()
	h.Write(in.m.digest[:])
	for p := range slices.Chunk(in.Memory(), linear.Portion) {
		h.Write(p)
		runtime.Gosched()
	}
	for _, g := range im.globals {
		_ = binary.Write(h, binary.LittleEndian, g) // a hash takes everything
	}
	h.Sum(im.id[:0])
	in.m.machine.models.Adopt(im.memory, im.id)
	return im
}

func outsideOfMemory(s instrument.Segment, size uint32) error {
	return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf(
		"a data segment of %d bytes at address %d lies outside of the memory of %d bytes", len(s.Bytes), s.Offset, size)}
}
