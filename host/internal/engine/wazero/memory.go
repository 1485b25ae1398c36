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
	cut   int // if not 0, the next Reallocate cuts the memory to this size
}

// Allocate returns the memory for the instance that is being instantiated.
func (m *memory) Allocate(uint64, uint64) experimental.LinearMemory { return m }

// withFirst makes an instance without an image get its memory outside of the Go heap, if the system supports that. It
// is freed with the instance.
func withFirst(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory {
		if f := linear.NewFirst(); f != nil {
			return f
		}
		return &heapMemory{}
	}))
}

// heapMemory is a memory on the Go heap, as wazero makes it by default.
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

// Reallocate returns the memory with a new size: at instantiation at least the size of the image, whatever the module
// declares, and later the size for a memory.grow. If cut is set, it is the size: wazero takes the length of what
// Reallocate returns and passes it to the compiled code.
func (m *memory) Reallocate(size uint64) []byte {
	if m.cut > 0 {
		return m.Resize(m.cut)
	}
	return m.Resize(max(int(min(size, abi.MaxMemoryBytes+1)), m.image.memory.Size()))
}
