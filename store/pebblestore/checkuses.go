package pebblestore

import (
	"encoding/binary"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// uses checks the counts of versions against the versions. If a store does not keep counts, they are built when it is
// opened, which is also how they are repaired.
func (c *checker) uses() error {
	counted, err := c.s.usesCounted()
	if err != nil || !counted {
		return err
	}
	wrong := false
	problem := func(format string, args ...any) {
		wrong = true
		c.report.Add(Problem{Kind: "count", Partition: -1, Text: fmt.Sprintf(format, args...), Repaired: c.repair})
	}
	want, err := c.s.usesOfAll()
	if err != nil { // a version cannot be read, which is a problem already
		return nil //nolint:nilerr // the counts cannot be checked
	}
	err = c.each(0, store.NoPartition, store.TableUses, func(rest, v []byte) error {
		d, ok := c.digest("count", rest)
		if !ok {
			return nil
		}
		if len(v) != 8 || binary.BigEndian.Uint64(v) != want[d] {
			problem("the versions of module %s are counted as %x, there are %d", d, v, want[d])
		}
		delete(want, d)
		return nil
	})
	if err != nil {
		return err
	}
	for d, n := range want {
		problem("the versions of module %s are not counted, there are %d", d, n)
	}
	if !wrong || !c.repair {
		return nil
	}
	b := c.s.db.NewBatch()
	defer c.s.drop(b)
	_ = b.Delete(usesKey, nil)
	return c.apply(b)
}
