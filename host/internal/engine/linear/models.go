package linear

import (
	"sync"
	"weak"
)

// Models finds what the memories of an image were compared with when the image was made before. Deltas of memories that are
// gone keep that in memory, and it takes more than they do: without Models, each time that an image is made adds one.
// The zero value is usable. K says which images are equal, byte by byte.
type Models[K comparable] struct {
	mu sync.Mutex
	of map[K]weak.Pointer[model] // there while a delta has it
}

// Adopt has the memories of a new image compared with what those of an equal one were, if a delta needs that anyway.
func (ms *Models[K]) Adopt(im *Image, key K) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if mo := ms.of[key].Value(); mo != nil {
		im.model.Store(mo)
	}
}

// Keep is called when an image is closed.
func (ms *Models[K]) Keep(im *Image, key K) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for k, w := range ms.of { // as many as there are modules
		if w.Value() == nil {
			delete(ms.of, k)
		}
	}
	if mo := im.model.Load(); mo != nil {
		if ms.of == nil {
			ms.of = map[K]weak.Pointer[model]{}
		}
		ms.of[key] = weak.Make(mo)
	}
}
