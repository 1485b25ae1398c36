package linear

import (
	"sync"
	"weak"
)

// Models finds the model of an equal image that was made earlier. Deltas of closed images keep their model in memory,
// and a model is larger than a delta: without Models, each new image would add another one. The zero value is ready
// to use. Images with equal keys K must be equal, byte by byte.
type Models[K comparable] struct {
	mu sync.Mutex
	of map[K]weak.Pointer[model] // weak: a model lives while an image or a delta refers to it
}

// Adopt gives a new image the model of an equal image, if a delta still refers to it.
func (ms *Models[K]) Adopt(im *Image, key K) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if mo := ms.of[key].Value(); mo != nil {
		im.model.Store(mo)
	}
}

// Keep records the model of an image that is being closed.
func (ms *Models[K]) Keep(im *Image, key K) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for k, w := range ms.of { // one for each module
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
