package module

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// maxGrants bounds the versions whose grants are cached: enough for the runs of a busy hour.
const maxGrants = 1000

type versionKey struct {
	ns       store.NamespaceID
	workflow string
	number   uint32
}

// Grants returns what a version may do: nothing, if the version does not exist. Versions are immutable, so the cache
// never goes stale.
func (c *Cache) Grants(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Grants, error) {
	key := versionKey{ns, workflow, number}
	c.mu.Lock()
	g, ok := c.granted[key]
	c.mu.Unlock()
	if ok {
		return g, nil
	}
	v, err := c.store.Modules().Version(ctx, ns, workflow, number)
	if errors.Is(err, store.ErrNotFound) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("grants of %s@%d: %w", workflow, number, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.granted) >= maxGrants {
		clear(c.granted)
	}
	c.granted[key] = v.Grants
	return v.Grants, nil
}
