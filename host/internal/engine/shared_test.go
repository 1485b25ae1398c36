package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// countingEngine counts what it does.
type countingEngine struct {
	Engine
	mu       sync.Mutex
	compiled map[[sha256.Size]byte]int
	loaded   int
	forgot   int
	fails    error
}

type countingModule struct {
	Module
	e *countingEngine
}

func (e *countingEngine) Compile(_ context.Context, s Source) (Module, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails != nil {
		return nil, e.fails
	}
	e.compiled[s.Digest]++
	e.loaded++
	return &countingModule{e: e}, nil
}

func (e *countingEngine) Forget(context.Context, [sha256.Size]byte) error {
	e.forgot++
	return nil
}

func (e *countingEngine) Close(context.Context) error { panic("a shared engine is closed") }

func (m *countingModule) Close(context.Context) error {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.e.loaded--
	return nil
}

func openShared(t *testing.T, dir, key string) (e Engine, counts *countingEngine) {
	t.Helper()
	e, err := Open(t.Context(), dir, key, func(context.Context) (Engine, error) {
		counts = &countingEngine{compiled: map[[sha256.Size]byte]int{}}
		return counts, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, counts
}

func moduleOf(t *testing.T, e Engine, name string) Module {
	t.Helper()
	m, err := e.Compile(t.Context(), Bytes([]byte(name)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSharedEngineLoadsAModuleOnce(t *testing.T) {
	dir := t.TempDir()
	if e, counts := openShared(t, dir, ""); e != Engine(counts) {
		t.Error("an engine is shared that need not be")
	}
	Share(dir)
	e, counts := openShared(t, dir, "")
	if again, made := openShared(t, dir, ""); again != e || made != nil {
		t.Error("a second engine was made")
	}
	if other, made := openShared(t, dir, "other"); other == e || made == nil {
		t.Error("engines with different keys are the same")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				m := moduleOf(t, e, "a")
				_ = m.Close(t.Context())
				_ = m.Close(t.Context()) // changes nothing
			}
		})
	}
	wg.Wait()
	_ = e.Close(t.Context())
	if n := counts.compiled[sha256.Sum256([]byte("a"))]; n != 1 || counts.loaded != 1 {
		t.Errorf("it was compiled %d times, %d are loaded", n, counts.loaded)
	}
}

func TestSharedEngineClosesModulesThatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	Share(dir)
	e, counts := openShared(t, dir, "")
	used, unused := moduleOf(t, e, "used"), moduleOf(t, e, "unused")
	_ = unused.Close(t.Context())
	for i := range 2 * idleModules {
		_ = moduleOf(t, e, fmt.Sprint(i)).Close(t.Context())
	}
	if counts.loaded != idleModules+1 {
		t.Errorf("%d modules are loaded", counts.loaded)
	}
	_ = moduleOf(t, e, "used").Close(t.Context())
	_ = moduleOf(t, e, "unused").Close(t.Context())
	if u, n := counts.compiled[sha256.Sum256([]byte("used"))], counts.compiled[sha256.Sum256([]byte("unused"))]; u != 1 || n != 2 {
		t.Errorf("compiled %d and %d times", u, n)
	}
	digest := sha256.Sum256([]byte("used"))
	_ = e.Forget(t.Context(), digest)
	if counts.loaded != idleModules+1 || counts.forgot != 1 {
		t.Errorf("%d modules are loaded, %d forgotten", counts.loaded, counts.forgot)
	}
	_ = used.Close(t.Context())
	before := counts.loaded
	if _ = e.Forget(t.Context(), digest); counts.loaded != before-1 {
		t.Errorf("%d modules are loaded", counts.loaded)
	}
}

func TestSharedEngineCompilesAgainAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	Share(dir)
	e, counts := openShared(t, dir, "")
	counts.fails = errors.New("no")
	if _, err := e.Compile(t.Context(), Bytes(nil)); !errors.Is(err, counts.fails) {
		t.Error(err)
	}
	counts.fails = nil
	if _ = moduleOf(t, e, ""); counts.loaded != 1 {
		t.Error(counts.loaded)
	}
}
