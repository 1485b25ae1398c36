package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// A Maker makes an engine without a cache on disk.
type Maker func(ctx context.Context) (Engine, error)

var (
	linkedMu sync.Mutex
	linked   = map[string]Maker{} // guarded by linkedMu
)

// Register adds an engine under a name. Packages of engines call it in their init functions.
func Register(name string, m Maker) {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	linked[name] = m
}

// Linked returns the maker of a registered engine, or nil.
func Linked(name string) Maker {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	return linked[name]
}

// LinkedNames returns the sorted names of the registered engines.
func LinkedNames() []string {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	return slices.Sorted(maps.Keys(linked))
}
