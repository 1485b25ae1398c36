package wazero

import (
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

// Reallocate gives the memory with a new size: at instantiation that of the image, whatever the module declares,
// and later what a memory.grow asks for. While cut is set, that is the size: wazero takes the length of what it is given,
// and hands it to the compiled code.
func (m *memory) Reallocate(size uint64) []byte {
	if m.cut > 0 {
		return m.Resize(m.cut)
	}
	return m.Resize(max(int(min(size, abi.MaxMemoryBytes+1)), m.image.memory.Size()))
}
