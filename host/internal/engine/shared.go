package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"
)

// shared holds the engines that several hosts of this process use, by their keys.
var shared struct {
	mu   sync.Mutex
	dirs map[string]bool
	by   map[string]*sharedEngine
}

// Share makes all hosts of this process whose folder is dir use one engine. It is for tests, which open hundreds of hosts: the
// first host that needs a module loads it for the others.
func Share(dir string) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.dirs == nil {
		shared.dirs, shared.by = map[string]bool{}, map[string]*sharedEngine{}
	}
	shared.dirs[dir] = true
}

// Open makes an engine. If Share was called for the folder, it makes only one for each key, and returns that one again. The key
// must name every setting of the engine.
func Open(ctx context.Context, dir, key string, m Maker) (Engine, error) {
	shared.mu.Lock()
	if !shared.dirs[dir] {
		shared.mu.Unlock()
		return m(ctx)
	}
	defer shared.mu.Unlock()
	key = dir + "\x00" + key
	if e := shared.by[key]; e != nil {
		return e, nil
	}
	made, err := m(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	e := &sharedEngine{Engine: made, modules: map[[sha256.Size]byte]*sharedModule{}}
	shared.by[key] = e
	return e, nil
}

// sharedEngine is an engine that lasts as long as the process.
type sharedEngine struct {
	Engine

	mu      sync.Mutex // guards the fields below, and the fields of sharedModule
	modules map[[sha256.Size]byte]*sharedModule
	closes  uint64 // how many modules were closed
}

// idleModules is the number of unused modules that stay loaded.
const idleModules = 8

// sharedModule is a module of a sharedEngine.
type sharedModule struct {
	loading sync.Mutex // held while it is loaded
	users   int        // hosts that use it, or load it
	closed  uint64     // the number of the close after which no host used it
	module  Module     // nil until it is loaded
}

// sharedUse is the use of a module by one host.
type sharedUse struct {
	Module
	close func(ctx context.Context) error // called once
	once  sync.Once
}

func (u *sharedUse) Close(ctx context.Context) (err error) {
	u.once.Do(func() { err = u.close(ctx) })
	return err
}

// Close does nothing: the next host uses the engine.
func (e *sharedEngine) Close(context.Context) error { return nil }

// Forget also deletes a module that is loaded and unused.
func (e *sharedEngine) Forget(ctx context.Context, digest [sha256.Size]byte) error {
	e.mu.Lock()
	m := e.modules[digest]
	if m != nil && m.users > 0 {
		m = nil
	}
	if m != nil {
		delete(e.modules, digest)
	}
	e.mu.Unlock()
	if m != nil && m.module != nil {
		_ = m.module.Close(ctx) // frees memory only
	}
	return e.Engine.Forget(ctx, digest)
}

func (e *sharedEngine) Compile(ctx context.Context, s Source) (Module, error) {
	e.mu.Lock()
	m := e.modules[s.Digest]
	if m == nil {
		m = &sharedModule{}
		e.modules[s.Digest] = m
	}
	m.users++
	e.mu.Unlock()
	m.loading.Lock()
	defer m.loading.Unlock()
	if m.module == nil {
		module, err := e.Engine.Compile(ctx, s)
		if err != nil {
			_ = e.leave(ctx, m)
			return nil, err
		}
		m.module = module
	}
	return &sharedUse{Module: m.module, close: func(ctx context.Context) error { return e.leave(ctx, m) }}, nil
}

// leave ends a host's use of a module, and closes the modules that have been unused the longest.
func (e *sharedEngine) leave(ctx context.Context, m *sharedModule) error {
	e.mu.Lock()
	e.closes++
	m.users, m.closed = m.users-1, e.closes
	var idle [][sha256.Size]byte
	for digest, x := range e.modules {
		switch {
		case x.users > 0:
		case x.module == nil:
			delete(e.modules, digest)
		default:
			idle = append(idle, digest)
		}
	}
	slices.SortFunc(idle, func(a, b [sha256.Size]byte) int { return cmp.Compare(e.modules[b].closed, e.modules[a].closed) })
	var old []Module
	for _, digest := range idle[min(idleModules, len(idle)):] {
		old = append(old, e.modules[digest].module)
		delete(e.modules, digest)
	}
	e.mu.Unlock()
	var err error
	for _, x := range old {
		err = cmp.Or(err, x.Close(ctx))
	}
	return err
}
