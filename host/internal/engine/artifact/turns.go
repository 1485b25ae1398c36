package artifact

import "sync"

// Turns has one caller at a time load or compile the artifact of a name. Nothing is kept of a name that nobody uses: anybody who
// may upload makes as many as they like. The zero value is usable.
type Turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	sync.Mutex
	users int // that have it or wait for it; guarded by Turns.mu
}

// Take waits until nobody else has the name, which is the caller's until end is called.
func (t *Turns) Take(name string) (end func()) {
	t.mu.Lock()
	own := t.of[name]
	if own == nil {
		if t.of == nil {
			t.of = map[string]*turn{}
		}
		own = &turn{}
		t.of[name] = own
	}
	own.users++
	t.mu.Unlock()
	own.Lock()
	return func() {
		own.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		own.users--
		if own.users == 0 {
			delete(t.of, name)
		}
	}
}
