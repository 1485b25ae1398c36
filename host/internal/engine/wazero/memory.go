package wazero

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine/linear"
)

// memory is the linear memory of an instance, as wazero allocates it.
type memory struct {
	*linear.Memory
	image *image
	cut   int // if not 0: the next Reallocate cuts the memory to this size
}

// Allocate makes the memory the one of an instance that is being instantiated.
func (m *memory) Allocate(uint64, uint64) experimental.LinearMemory { return m }

// withFirst has an instance that has no image have its memory outside of the Go heap, if the system can. The instance's end
// frees it.
func withFirst(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory {
		if f := linear.NewFirst(); f != nil {
			return f
		}
		return &heapMemory{}
	}))
}

// heapMemory is a memory as wazero makes it by itself.
type heapMemory struct{ bytes []byte }

func (h *heapMemory) Free() { h.bytes = nil }

func (h *heapMemory) Reallocate(size uint64) []byte {
	if size > abi.MaxMemoryBytes {
		return nil
	}
	if n := int(size) - len(h.bytes); n > 0 {
		h.bytes = append(h.bytes, make([]byte, n)...)
	}
	return h.bytes[:size]
}

// Reallocate gives the memory with a new size: at instantiation that of the image, whatever the module declares,
// and later what a memory.grow asks for. While cut is set, that is the size: wazero takes the length of what it is given,
// and hands it to the compiled code.
func (m *memory) Reallocate(size uint64) []byte {
	if m.cut > 0 {
		return m.Resize(m.cut)
	}
	return m.Resize(max(int(min(size, abi.MaxMemoryBytes+1)), m.image.memory.Size()))
}
