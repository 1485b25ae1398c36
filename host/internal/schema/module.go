package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/lru"
)

const (
	// MaxModuleBytes is how long all schemas of a module may be together.
	MaxModuleBytes = 1 << 20
	// CacheBytes is what compiled schemas may take in memory, about.
	CacheBytes = 32 << 20
	// compiledTimes is how many times as much memory as its text a compiled schema takes, about, and compiledBytes what it takes at
	// least.
	compiledTimes, compiledBytes = 64, 4 << 10
)

// Workflow has the schemas of a workflow, nil where there is none.
type Workflow struct {
	Input, Output *Schema
	Signals       map[string]*Schema
}

// Module has those of the workflows of a module, by name.
type Module struct {
	Workflows map[string]*Workflow
	bytes     int64 // of their texts
}

// OfModule compiles the schemas in the description of a module, nil if there are none. A schema that cannot be used is an error
// that says where it is.
func OfModule(description []byte) (*Module, error) {
	var d abi.Description
	m := &Module{Workflows: map[string]*Workflow{}}
	if len(description) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, fmt.Errorf("workflow_describe is not as it should be: %w", err)
	}
	for _, w := range d.Workflows {
		of := &Workflow{}
		var err error
		if of.Input, err = m.compile(w.Name, "input", w.InputSchema); err != nil {
			return nil, err
		}
		if of.Output, err = m.compile(w.Name, "result", w.OutputSchema); err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(w.SignalSchemas)) {
			if len(w.Signals) > 0 && !slices.Contains(w.Signals, name) {
				return nil, fmt.Errorf("workflow %q has a schema for the signal %q, which is not among its signals %q", w.Name, name,
					w.Signals)
			}
			s, err := m.compile(w.Name, fmt.Sprintf("signal %q", name), w.SignalSchemas[name])
			if err != nil {
				return nil, err
			}
			if of.Signals == nil {
				of.Signals = map[string]*Schema{}
			}
			of.Signals[name] = s
		}
		if of.Input != nil || of.Output != nil || of.Signals != nil {
			m.Workflows[w.Name] = of
		}
	}
	return m, nil
}

func (m *Module) compile(workflow, of string, text json.RawMessage) (*Schema, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if m.bytes += int64(len(text)); m.bytes > MaxModuleBytes {
		return nil, fmt.Errorf("the schemas of the module have more than %d bytes", MaxModuleBytes)
	}
	s, err := Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s of workflow %q: %w", of, workflow, err)
	}
	return s, nil
}

// Cache keeps compiled schemas of modules, by their digests. Its zero value is ready. It may be used concurrently.
type Cache struct {
	mu      sync.Mutex
	modules map[[32]byte]*cached
	list    lru.List[[32]byte]
}

type cached struct {
	m     *Module
	place *lru.Place[[32]byte]
}

// Of returns the schemas of a workflow of a module, nil if it has none. describe is called for a module that is not in memory. A
// module whose schemas cannot be used, which no upload of this release lets in, is taken as one that has none.
func (c *Cache) Of(digest [32]byte, workflow string, describe func() ([]byte, error)) (*Workflow, error) {
	c.mu.Lock()
	if e := c.modules[digest]; e != nil {
		c.list.Remove(e.place)
		e.place = c.list.Add(digest, e.bytes())
		c.mu.Unlock()
		return e.m.Workflows[workflow], nil
	}
	c.mu.Unlock()
	description, err := describe()
	if err != nil {
		return nil, err
	}
	m, err := OfModule(description)
	if err != nil {
		m = &Module{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.modules == nil {
		c.modules, c.list.Limit = map[[32]byte]*cached{}, CacheBytes
	}
	if c.modules[digest] == nil {
		e := &cached{m: m}
		e.place = c.list.Add(digest, e.bytes())
		c.modules[digest] = e
	}
	for old, ok := c.list.Excess(); ok && old != digest; old, ok = c.list.Excess() {
		c.list.Remove(c.modules[old].place)
		delete(c.modules, old)
	}
	return m.Workflows[workflow], nil
}

func (e *cached) bytes() int64 { return compiledBytes + compiledTimes*e.m.bytes }
