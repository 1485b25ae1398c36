package limits

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// Reader reads at most limit cells of a queue in the order of their keys, from from up to but excluding to. The cells must
// not change while a Queue is in use.
type Reader func(from, to []byte, limit int) ([]store.Cell, error)

// Marks hold, for key prefixes, a key before which there are no cells. A scan for the first key starts there and so skips
// the tombstones of deleted cells, which a store keeps for some time. The owner of a queue passes its Marks from one Queue
// to the next. It discards them when a commit fails, since they may already describe what was not committed.
type Marks map[string]string

// cells is a view of the cells of a queue with uncommitted changes.
type cells struct {
	read    Reader
	marks   Marks
	changed map[string][]byte // nil = deleted
	order   []string          // keys of changed, sorted
	ahead   map[string]*portion
	err     error // the first error; afterwards everything that was read is invalid
}

// portion is a portion of the stored cells of a prefix, in order.
type portion struct {
	keys []string
	next []byte // where the next read starts; nil at the end
	size int    // of the next read
}

// Sizes of reads. Most prefixes are read once or twice, some are read to the end.
const (
	firstPortion = 2
	maxPortion   = 256
)

func newCells(read Reader, marks Marks) *cells {
	return &cells{read: read, marks: marks, changed: map[string][]byte{}, ahead: map[string]*portion{}}
}

// get returns the value of a cell, nil if there is none.
func (c *cells) get(key string) []byte {
	if v, ok := c.changed[key]; ok {
		return v
	}
	if c.err != nil {
		return nil
	}
	list, err := c.read([]byte(key), []byte(key+"\x00"), 1)
	if err != nil {
		c.err = err
	}
	if err != nil || len(list) == 0 {
		return nil
	}
	return list[0].Value
}

// set sets a cell; nil deletes it.
func (c *cells) set(key string, value []byte) {
	if _, ok := c.changed[key]; !ok {
		i, _ := slices.BinarySearch(c.order, key)
		c.order = slices.Insert(c.order, i, key)
	}
	c.changed[key] = value
	if value == nil {
		return
	}
	for prefix, mark := range c.marks {
		if strings.HasPrefix(key, prefix) && key < mark {
			c.marks[prefix] = key
		}
	}
}

// first returns the first key with the prefix at or after from, empty if there is none.
func (c *cells) first(prefix, from string) string {
	stored := c.firstStored(prefix, from)
	for i, _ := slices.BinarySearch(c.order, from); i < len(c.order) && strings.HasPrefix(c.order[i], prefix); i++ {
		if key := c.order[i]; c.changed[key] != nil {
			if stored == "" || key < stored {
				return key
			}
			break
		}
	}
	return stored
}

// firstStored is like first, but covers only stored cells that were not deleted.
func (c *cells) firstStored(prefix, from string) string {
	w := c.ahead[prefix]
	if w == nil {
		w = &portion{next: []byte(from), size: firstPortion}
		c.ahead[prefix] = w
	}
	for {
		for len(w.keys) > 0 {
			if v, ok := c.changed[w.keys[0]]; w.keys[0] >= from && (!ok || v != nil) {
				return w.keys[0]
			}
			w.keys = w.keys[1:] // if it was set again, first finds it among the changes
		}
		if w.next == nil || c.err != nil {
			return ""
		}
		list, err := c.read(w.next, store.PrefixEnd([]byte(prefix)), w.size)
		if err != nil {
			c.err = err
			return ""
		}
		for i := range list {
			w.keys = append(w.keys, string(list[i].Key))
		}
		w.next = nil
		if len(list) == w.size {
			w.next = append(bytes.Clone(list[len(list)-1].Key), 0)
		}
		w.size = min(4*w.size, maxPortion)
	}
}

// front returns the first key with a prefix and updates the mark of the prefix. It is empty if there is none.
func (c *cells) front(prefix string) string {
	key := c.first(prefix, max(c.marks[prefix], prefix))
	if c.err == nil && c.marks != nil {
		c.marks[prefix] = key
		if key == "" {
			c.marks[prefix] = string(store.PrefixEnd([]byte(prefix)))
		}
	}
	return key
}

// changes returns the cells to commit.
func (c *cells) changes() []store.Cell {
	list := make([]store.Cell, 0, len(c.order))
	for _, key := range c.order {
		list = append(list, store.Cell{Key: []byte(key), Value: c.changed[key]})
	}
	return list
}
