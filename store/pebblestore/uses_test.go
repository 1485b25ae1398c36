package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// usesEnv is a store that is opened repeatedly.
type usesEnv struct {
	*testing.T
	fs *vfs.MemFS
	s  *Store
}

func newUses(t *testing.T) *usesEnv {
	u := &usesEnv{T: t, fs: vfs.NewMem()}
	u.reopen()
	t.Cleanup(func() { _ = u.s.Close() })
	return u
}

func (u *usesEnv) do(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *usesEnv) reopen() {
	u.Helper()
	if u.s != nil {
		u.do(u.s.Close())
	}
	var err error
	u.s, err = Open("db", Options{FS: u.fs})
	u.do(err)
}

func (u *usesEnv) put(wasm string) store.Digest {
	u.Helper()
	d, err := u.s.Modules().Put(u.Context(), []byte(wasm), store.ModuleInfo{})
	u.do(err)
	return d
}

func (u *usesEnv) add(ns store.NamespaceID, workflow string, d store.Digest) {
	u.Helper()
	_, err := u.s.Modules().AddVersions(u.Context(), []store.VersionSpec{{Namespace: ns, Workflow: workflow, Module: d}})
	u.do(err)
}

// there checks whether a module exists.
func (u *usesEnv) there(d store.Digest, want bool) {
	u.Helper()
	if _, err := u.s.Modules().Get(u.Context(), d); err == nil != want || !want && !errors.Is(err, store.ErrNotFound) {
		u.Errorf("module is there: %v, want %v: %v", err == nil, want, err)
	}
}

// unused fails unless these modules are unused.
func (u *usesEnv) unused(want ...store.Digest) {
	u.Helper()
	list, err := u.s.Modules().Unused(u.Context(), 10)
	if err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		u.Errorf("unused are %v, %v, want %v", list, err, want)
	}
}

// forget removes everything that an earlier build does not maintain.
func (u *usesEnv) forget() {
	u.Helper()
	for _, table := range []byte{store.TableUses, store.TableUnused} {
		prefix := store.GlobalKey(0, table, nil)
		u.do(u.s.db.DeleteRange(prefix, store.PrefixEnd(prefix), pebble.Sync))
	}
	for p := range store.PartitionID(store.Partitions) {
		u.do(u.s.db.Delete(epochCopyKey(p), pebble.Sync))
	}
	u.do(u.s.db.Delete(usesKey, pebble.Sync))
}

// earlier does what a build without the counts does: it acquires a partition, stores a module, and adds versions.
func (u *usesEnv) earlier(wasm string, versions ...store.Version) (d store.Digest) {
	u.Helper()
	v, err := u.s.get(epochKey(3))
	u.do(err)
	epoch := uint64(1)
	if v != nil {
		epoch += binary.BigEndian.Uint64(v)
	}
	d = digestOf([]byte(wasm))
	u.do(u.s.db.Set(epochKey(3), binary.BigEndian.AppendUint64(nil, epoch), pebble.Sync))
	u.do(u.s.db.Set(wasmKey(d), []byte(wasm), pebble.Sync))
	u.do(u.s.db.Set(store.GlobalKey(0, store.TableModule, d[:]), store.AppendModuleInfo(nil, &store.ModuleInfo{}), pebble.Sync))
	for _, v := range versions {
		v.Module = d
		u.do(u.s.db.Set(store.VersionKey(v.Namespace, v.Workflow, v.Number), store.AppendVersion(nil, &v), pebble.Sync))
	}
	return d
}

// TestUsesOfAnEarlierBuild opens a store without counts: they are built once. It has modules that several versions
// use, in several namespaces, one shared with a deleted version, and one left by an interrupted upload.
func TestUsesOfAnEarlierBuild(t *testing.T) {
	u := newUses(t)
	shared, alone, cut := u.put("shared"), u.put("alone"), u.put("cut")
	u.add(0, "w", shared)
	u.add(7, "w", shared)
	u.add(7, "w", alone)
	u.add(0, "gone", shared)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "gone", 1))
	u.forget()
	for range 2 {
		u.reopen()
		u.unused(cut)
	}
	u.do(u.s.Modules().DeleteVersion(t.Context(), 7, "w", 1))
	u.there(shared, true)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "w", 1))
	u.there(shared, false)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 7, "w", 2))
	u.there(alone, false)
	u.unused(cut)
}

// TestUsesAfterAnEarlierBuild has a build without counts change versions of a store that has counts: no used module
// is deleted, and its unused modules are found.
func TestUsesAfterAnEarlierBuild(t *testing.T) {
	u := newUses(t)
	for n := range store.PartitionID(5) {
		_, err := u.s.Acquire(t.Context(), n, "a", 0)
		u.do(err)
	}
	d := u.put("shared")
	u.add(0, "w", d)
	u.reopen()
	u.earlier("shared", store.Version{Workflow: "other", Number: 1}, store.Version{Namespace: 9, Workflow: "w", Number: 1})
	cut := u.earlier("cut")
	u.reopen()
	u.unused(cut)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "w", 1))
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "other", 1))
	u.there(d, true)
	u.do(u.s.Modules().DeleteVersion(t.Context(), 9, "w", 1))
	u.there(d, false)
	_, err := u.s.Modules().DeleteUnused(t.Context(), []store.Digest{cut})
	u.do(err)
	u.there(cut, false)

	_, err = u.s.Acquire(t.Context(), 3, "a", 0) // from here on, no other build has opened it
	u.do(err)
	if ok, err := u.s.usesCounted(); err != nil || !ok {
		t.Errorf("the versions are counted again without need: %v", err)
	}
}

// TestUsesOfDamagedVersions opens a store with a version that cannot be read: no module is deleted until it can be
// read.
func TestUsesOfDamagedVersions(t *testing.T) {
	u := newUses(t)
	d := u.put("shared")
	u.add(0, "w", d)
	cut := u.put("cut")
	key := store.VersionKey(5, "damaged", 1)
	u.do(u.s.db.Set(key, []byte("rubbish"), pebble.Sync))
	u.forget()
	u.reopen()
	u.unused()
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "w", 1))
	deleted, err := u.s.Modules().DeleteUnused(t.Context(), []store.Digest{cut, d})
	if err != nil || len(deleted) > 0 {
		t.Errorf("%v were deleted, %v", deleted, err)
	}
	u.there(d, true)
	u.there(cut, true)
	again := u.put("again") // what is added in the meantime is counted with the rest
	u.add(0, "again", again)
	u.do(u.s.db.Delete(key, pebble.Sync))
	u.reopen()
	if list, err := u.s.Modules().Unused(t.Context(), 10); err != nil || len(list) != 2 {
		t.Errorf("unused are %v, %v", list, err)
	}
	u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "again", 1))
	u.there(again, false)
}

// TestDeleteVersionReadsLittle counts the blocks that deleting versions reads, with few and with many other versions,
// of other modules and of the same one: the counts are equal.
func TestDeleteVersionReadsLittle(t *testing.T) {
	reads := func(others int) (n int64) {
		u := newUses(t)
		mine, shared := u.put("mine"), u.put("shared")
		var specs []store.VersionSpec
		for i := range others {
			specs = append(specs, store.VersionSpec{Namespace: store.NamespaceID(i % 50), Workflow: fmt.Sprint("w", i), Module: shared})
		}
		specs = append(specs, store.VersionSpec{Workflow: "mine", Module: mine}, store.VersionSpec{Workflow: "share", Module: shared})
		_, err := u.s.Modules().AddVersions(t.Context(), specs)
		u.do(errors.Join(err, u.s.db.Flush(), u.s.db.Compact(t.Context(), []byte{0}, []byte{0xff, 0xff, 0xff, 0xff}, false)))
		cache := func() int64 {
			c := u.s.db.Metrics().BlockCache
			return c.Hits + c.Misses
		}
		before := cache()
		u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "mine", 1))
		u.do(u.s.Modules().DeleteVersion(t.Context(), 0, "share", 1))
		_, err = u.s.Modules().Unused(t.Context(), 10)
		u.do(err)
		n = cache() - before
		u.there(mine, false)
		u.there(shared, true)
		return n
	}
	few, many := reads(100), reads(3000)
	t.Log(few, "blocks beside 100 versions,", many, "beside 3,000")
	if many > few+20 {
		t.Errorf("deleting two versions read %d blocks beside 100 others, and %d beside 3,000", few, many)
	}
}

// TestRepairUses damages the counts of versions.
func TestRepairUses(t *testing.T) {
	d := digestOf([]byte("module"))
	key := store.GlobalKey(0, store.TableUses, d[:])
	for i, damage := range []func(c *checked){
		func(c *checked) { c.do(c.s.db.Delete(key, pebble.Sync)) },
		func(c *checked) { c.do(c.s.db.Set(key, appendUses(2), pebble.Sync)) },
		func(c *checked) { c.do(c.s.db.Set(key, []byte("x"), pebble.Sync)) },
		func(c *checked) {
			c.do(c.s.db.Set(store.GlobalKey(0, store.TableUses, make([]byte, 32)), appendUses(1), pebble.Sync))
		},
	} {
		c := newChecked(t)
		damage(c)
		for _, repair := range []bool{false, true} {
			r := c.check(repair)
			if len(r.Problems) != 1 || r.Problems[0].Kind != "count" || r.Problems[0].Repaired != repair {
				t.Errorf("damage %d, repair %v: %+v", i, repair, r)
			}
		}
		var err error
		c.s, err = Open(c.dir, Options{NoSync: true}) // counts them again
		c.do(err)
		if n, err := (modules{c.s}).uses(d); err != nil || n != 1 {
			t.Errorf("damage %d: repaired, there are %d versions, %v", i, n, err)
		}
		if r := c.check(false); len(r.Problems) > 0 {
			t.Errorf("damage %d: left %+v", i, r.Problems)
		}
	}
}
