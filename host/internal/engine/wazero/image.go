package wazero

import (
	"bytes"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/rewrite"
)

// image is what every instance of a module starts from: memory and globals as they are after the data segments, the
// start function and _initialize, which ran once, on a fixed clock and fixed random.
type image struct {
	memory  []byte
	globals []uint64 // in the order of instance.globals
	mapping          // how the system shares it between instances
}

// newImage takes the image of an instance that was just made.
func newImage(in *instance, reset Reset) *image {
	im := &image{memory: bytes.Clone(in.Memory())}
	for _, g := range in.globals {
		im.globals = append(im.globals, g.Get())
	}
	im.share(reset)
	return im
}

func outsideOfMemory(s rewrite.Segment, size uint32) error {
	return &engine.Trap{Kind: engine.TrapInit, Message: fmt.Sprintf(
		"a data segment of %d bytes at address %d lies outside of the memory of %d bytes", len(s.Bytes), s.Offset, size)}
}
