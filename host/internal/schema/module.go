package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/lru"
)

const (
	// MaxModuleBytes bounds the total bytes of the schemas of a module.
	MaxModuleBytes = 1 << 20
	// MaxModuleParts bounds the number of schemas that the schemas of a module consist of, in total.
	MaxModuleParts = 10 * MaxParts
	// CacheBytes bounds the estimated memory of compiled schemas in a Cache.
	CacheBytes = 32 << 20
	// leastBytes is the least that a workflow counts there.
	leastBytes = 1 << 10
)

// Workflow holds the schemas of a workflow. They are nil if it has none.
type Workflow struct {
	Input   *Schema
	Signals map[string]*Schema // of signals by name, and of updates by abi.UpdatePrefix and their name
	bytes   int64              // estimated memory of its schemas
}

// Read reads the description of a module. Its errors use the terms of JSON, not of Go.
func Read(description []byte) (d abi.Description, err error) {
	if len(description) == 0 {
		return d, nil
	}
	err = json.Unmarshal(description, &d)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return d, fmt.Errorf("workflow_describe is not as it should be: it is no object, got %s", wrong.Value)
		}
		return d, fmt.Errorf("workflow_describe is not as it should be: %s must not be %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return d, fmt.Errorf("workflow_describe is not as it should be: %w", err)
	}
	return d, nil
}

// OfModule compiles the schemas in the description of a module, and discards them. If a schema cannot be used, the
// error says where it is.
func OfModule(ctx context.Context, description []byte) error {
	d, err := Read(description)
	if err != nil {
		return err
	}
	all := &total{}
	for i := range d.Workflows {
		if _, err := all.workflow(ctx, &d.Workflows[i], true); err != nil {
			return err
		}
	}
	return nil
}

// Set checks the schemas of one module before the module exists. The zero Set is ready for use. It must not be used
// concurrently.
type Set struct{ all total }

// Add adds a schema. It fails if an upload of a module with all added schemas would be refused.
func (s *Set) Add(text []byte) error {
	_, _, err := s.all.add(text)
	return err
}

// total counts the schemas of a module against its limits. Schemas with the same text are compiled once.
type total struct {
	bytes, parts int
	by           map[string]*Schema
}

// add compiles a schema, or returns the compiled one if the text was added before. fresh reports which.
func (t *total) add(text []byte) (s *Schema, fresh bool, err error) {
	t.bytes += len(text)
	if t.bytes > MaxModuleBytes {
		return nil, false, fmt.Errorf("%w of the module have more than %d bytes", errTotal, MaxModuleBytes)
	}
	if s := t.by[string(text)]; s != nil {
		return s, false, nil
	}
	s, err = Compile(text)
	if err != nil {
		return nil, false, err
	}
	t.parts += s.size
	if t.parts > MaxModuleParts {
		return nil, false, fmt.Errorf("%w of the module consist of more than %d schemas", errTotal, MaxModuleParts)
	}
	if t.by == nil {
		t.by = map[string]*Schema{}
	}
	t.by[string(text)] = s
	return s, true, nil
}

// errTotal is the error of schemas that exceed a limit together.
var errTotal = errors.New("the schemas")

// workflow compiles the schemas of a workflow, and returns nil if it has none. If result is true, it also compiles the
// schema of the result, only to see whether it can be used: no value is checked against it.
func (t *total) workflow(ctx context.Context, w *abi.WorkflowDescription, result bool) (*Workflow, error) {
	of := &Workflow{bytes: leastBytes}
	var err error
	of.Input, err = t.compile(ctx, of, w.Name, "input", w.InputSchema)
	if err != nil {
		return nil, err
	}
	if result {
		_, err = t.compile(ctx, of, w.Name, "result", w.OutputSchema)
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.SignalSchemas)) {
		if len(w.Signals) > 0 && !slices.Contains(w.Signals, name) {
			return nil, fmt.Errorf("workflow %q has a schema for the signal %q, which is not among its signals %q", w.Name, name,
				w.Signals)
		}
		s, err := t.compile(ctx, of, w.Name, fmt.Sprintf("signal %q", name), w.SignalSchemas[name])
		if err != nil {
			return nil, err
		}
		if of.Signals == nil {
			of.Signals = map[string]*Schema{}
		}
		of.Signals[name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(w.UpdateSchemas)) {
		if len(w.Updates) > 0 && !slices.Contains(w.Updates, name) {
			return nil, fmt.Errorf("workflow %q has a schema for the update %q, which is not among its updates %q", w.Name, name,
				w.Updates)
		}
		s, err := t.compile(ctx, of, w.Name, fmt.Sprintf("update %q", name), w.UpdateSchemas[name])
		if err != nil {
			return nil, err
		}
		if of.Signals == nil {
			of.Signals = map[string]*Schema{}
		}
		of.Signals[abi.UpdatePrefix+name] = s
	}
	if of.Input == nil && of.Signals == nil {
		return nil, nil
	}
	return of, nil
}

func (t *total) compile(ctx context.Context, to *Workflow, workflow, of string, text json.RawMessage) (*Schema, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, fresh, err := t.add(text)
	switch {
	case errors.Is(err, errTotal):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s of workflow %q: %w", of, workflow, err)
	case fresh:
		to.bytes += s.bytes
	}
	return s, nil
}

// Cache holds compiled schemas of workflows, by the digests of their modules. The zero Cache is ready for use. It may
// be used concurrently.
type Cache struct {
	mu      sync.Mutex
	entries map[of]*entry
	list    lru.List[of]
}

// of identifies a workflow of a module.
type of struct {
	module   [32]byte
	workflow string
}

// entry is created by the first caller. The callers after it wait for ready.
type entry struct {
	ready chan struct{} // closed when w and err are set
	w     *Workflow
	err   error
	place *lru.Item[of] // nil until ready
}

// Of returns the schemas of a workflow of a module, and nil if it has none. If they are not cached, the first caller
// compiles them from the result of describe, and concurrent callers wait for it. A workflow whose schemas cannot be
// used counts as having none; uploads of this release refuse such a module.
func (c *Cache) Of(ctx context.Context, digest [32]byte, workflow string, describe func() ([]byte, error)) (*Workflow, error) {
	k := of{digest, workflow}
	for {
		c.mu.Lock()
		e := c.entries[k]
		if e == nil {
			e = &entry{ready: make(chan struct{})}
			if c.entries == nil {
				c.entries, c.list.Limit = map[of]*entry{}, CacheBytes
			}
			c.entries[k] = e
			c.mu.Unlock()
			c.load(ctx, k, e, describe)
			return e.w, e.err
		}
		if e.place != nil {
			c.list.Remove(e.place)
			e.place = c.list.Add(k, e.bytes())
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if e.err == nil {
			return e.w, nil
		} // the error may be that of the other caller's context: try again
	}
}

// load fills an entry. It removes the entry if there was an error.
func (c *Cache) load(ctx context.Context, k of, e *entry, describe func() ([]byte, error)) {
	e.err = errNotLoaded
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(e.ready)
		if e.err != nil {
			delete(c.entries, k)
			return
		}
		e.place = c.list.Add(k, e.bytes())
		for old, more := c.list.Excess(); more && old != k; old, more = c.list.Excess() {
			c.list.Remove(c.entries[old].place)
			delete(c.entries, old)
		}
	}()
	description, err := describe()
	if err != nil {
		e.err = err
		return
	}
	d, err := Read(description)
	for i := range d.Workflows {
		if w := &d.Workflows[i]; err == nil && w.Name == k.workflow {
			e.w, err = new(total).workflow(ctx, w, false)
		}
	}
	e.err = ctx.Err()
}

// errNotLoaded is the error of an entry whose load did not finish.
var errNotLoaded = errors.New("the schemas were not compiled")

func (e *entry) bytes() int64 {
	if e.w == nil {
		return leastBytes
	}
	return e.w.bytes
}
