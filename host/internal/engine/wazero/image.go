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

// image is the initial state of every instance of a module: memory and globals after the data segments, the start
// function and _initialize, which ran once, on a fixed clock and fixed random numbers.
type image struct {
	id      [sha256.Size]byte // of module, memory and globals: a module that is loaded again has an equal image
	memory  *linear.Image
	globals []uint64 // in the order of instance.globals
}

// newImage makes the image from a new instance.
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
		_ = binary.Write(h, binary.LittleEndian, g) // writing to a hash does not fail
	}
	h.Sum(im.id[:0])
	in.m.machine.models.Adopt(im.memory, im.id)
	return im
}

func outsideOfMemory(s instrument.Segment, size uint32) error {
	return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf(
		"a data segment of %d bytes at address %d lies outside of the memory of %d bytes", len(s.Bytes), s.Offset, size)}
}
