package module

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/lru"
)

const (
	// CacheBytes is the approximate limit of a NamesCache, enough for some thousand workflows with a few names each.
	CacheBytes = 2 << 20
	// leastBytes is the estimate for a workflow without names.
	leastBytes = 256
	// bytesOfName is the overhead of a name beside its text.
	bytesOfName = 16
)

// Names lists the queries, signals and updates that a workflow declares.
type Names struct {
	Queries, Signals, Updates []string
}

// clone returns a deep copy, which the caller may change.
func (n Names) clone() Names {
	return Names{slices.Clone(n.Queries), slices.Clone(n.Signals), slices.Clone(n.Updates)}
}

func (n Names) bytes() int64 {
	sum := int64(leastBytes)
	for _, list := range [][]string{n.Queries, n.Signals, n.Updates} {
		for _, name := range list {
			sum += int64(len(name)) + bytesOfName
		}
	}
	return sum
}

// NamesCache caches the names of workflows by the digest of their module: a description is up to a megabyte, and
// names are a small part of it. The zero value is ready to use. It is safe for concurrent use.
type NamesCache struct {
	mu      sync.Mutex // no other lock is taken while it is held
	entries map[of]*lru.Item[namesOf]
	list    lru.List[namesOf]
}

// of identifies a workflow of a module.
type of struct {
	module   [32]byte
	workflow string
}

type namesOf struct {
	of    of
	names Names
}

// Of returns the names of a workflow of a module; none if the description cannot be parsed. It calls describe if the
// names are not cached. If describe fails, Of returns no names and caches nothing.
func (c *NamesCache) Of(digest [32]byte, workflow string, describe func() ([]byte, error)) Names {
	k := of{digest, workflow}
	if n, ok := c.get(k); ok {
		return n.clone()
	}
	description, err := describe()
	if err != nil {
		return Names{}
	}
	var n Names
	var d abi.Description
	if json.Unmarshal(description, &d) == nil {
		for i := range d.Workflows {
			if w := &d.Workflows[i]; w.Name == workflow {
				n = Names{w.Queries, w.Signals, w.Updates}
				break
			}
		}
	}
	c.keep(k, n)
	return n.clone()
}

func (c *NamesCache) get(k of) (Names, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.entries[k]
	if p == nil {
		return Names{}, false
	}
	x := p.Thing()
	c.list.Remove(p)
	c.entries[k] = c.list.Add(x, x.names.bytes())
	return x.names, true
}

func (c *NamesCache) keep(k of, n Names) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries, c.list.Limit = map[of]*lru.Item[namesOf]{}, CacheBytes
	}
	if p := c.entries[k]; p != nil { // another caller has added it meanwhile
		c.list.Remove(p)
	}
	c.entries[k] = c.list.Add(namesOf{k, n}, n.bytes())
	for old, more := c.list.Excess(); more; old, more = c.list.Excess() {
		c.list.Remove(c.entries[old.of])
		delete(c.entries, old.of)
	}
}
