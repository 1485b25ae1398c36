package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// A Maker makes an engine that keeps nothing on disk.
type Maker func(ctx context.Context) (Engine, error)

var (
	linkedMu sync.Mutex
	linked   = map[string]Maker{} // guarded by linkedMu
)

// Register adds an engine that this program was linked with, under a name. Packages of engines call it when they are initialized.
func Register(name string, m Maker) {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	linked[name] = m
}

// Linked returns the engine of a name, nil if this program was not linked with it.
func Linked(name string) Maker {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	return linked[name]
}

// LinkedNames returns the names of all engines that were registered, sorted.
func LinkedNames() []string {
	linkedMu.Lock()
	defer linkedMu.Unlock()
	return slices.Sorted(maps.Keys(linked))
}
