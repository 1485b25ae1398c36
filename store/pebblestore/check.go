package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// MaxProblems bounds the problems that a report lists. It only counts further ones: a person does not repair such a
// store problem by problem.
const MaxProblems = 1000

// Problem is one finding of Check.
type Problem struct {
	// Kind is the kind of problem: format, key, namespace, module, blob, state, journal, log, output, inbox, hook,
	// schedule, seal. Repair corrects the kinds index, count, wake, mark and payload.
	Kind      string            `json:"kind"`
	Partition int               `json:"partition"` // -1: the whole store
	Namespace store.NamespaceID `json:"namespace"`
	Run       string            `json:"run,omitempty"`
	Text      string            `json:"text"`
	Repaired  bool              `json:"repaired,omitempty"`
}

// Report is the result of Check.
type Report struct {
	Format   int   `json:"format"`
	Runs     int64 `json:"runs"` // without deleted runs
	Entries  int64 `json:"entries"`
	Modules  int64 `json:"modules"`
	Blobs    int64 `json:"blobs"`
	Commands int64 `json:"commands"`
	// Schedules is the number of schedule records that were read.
	Schedules int64 `json:"schedules"`
	// Orphans counts blobs that no journal names. They are no problem: they belong to runs that were deleted before
	// format 4.
	Orphans     int64 `json:"orphan_blobs"`
	OrphanBytes int64 `json:"orphan_bytes"`
	// OrphansRemoved is the number of orphans that a repair has removed.
	OrphansRemoved int64     `json:"orphans_removed,omitempty"`
	Problems       []Problem `json:"problems"`      // at most MaxProblems
	More           int64     `json:"more_problems"` // number of problems not listed
	Repaired       int64     `json:"repaired"`      // of listed and unlisted problems
}

// Left returns the number of problems that are not repaired.
func (r *Report) Left() int64 { return int64(len(r.Problems)) + r.More - r.Repaired }

// Add notes a problem.
func (r *Report) Add(p Problem) {
	if p.Repaired {
		r.Repaired++
	}
	if len(r.Problems) == MaxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, p)
}

// CheckOptions says how a store is checked.
type CheckOptions struct {
	// Repair rebuilds indexes, counts, wakes and marks that differ from what the states of the runs imply. States,
	// journals, modules and blobs are never changed. If no problem is left, it removes the orphans.
	Repair bool
	Logger *slog.Logger
	// Queue returns the faults of the cells of the queue with a name, which are in the order of their keys. nil finds
	// no faults. All cells of a queue are in memory at once.
	Queue func(name string, cells []store.Cell) []string
}

// Check reads the whole of a closed store. It checks that every record decodes, journals have no gaps, blobs and
// modules match their keys, each key belongs to a record, and the indexes agree with the states of the runs. It changes
// nothing unless Repair is set; then the database is opened for writing. An error means that the store cannot be read
// at all. Check holds the states and keys of one partition in memory at a time.
func Check(ctx context.Context, dir string, opts CheckOptions) (r *Report, err error) {
	s, err := open(dir, Options{ReadOnly: !opts.Repair, Logger: opts.Logger})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c := newChecker(ctx, s, opts.Repair)
	c.queue = opts.Queue
	return c.report, unsound(c.all())
}

func newChecker(ctx context.Context, s *Store, repair bool) *checker {
	return &checker{ctx: ctx, s: s, repair: repair, report: &Report{Problems: []Problem{}}, modules: map[store.Digest]bool{},
		named: map[store.Digest]bool{}, keys: map[string]bool{}, existing: map[store.NamespaceID]bool{0: true}}
}

// checker walks over a store.
type checker struct {
	ctx      context.Context //nolint:containedctx // for as long as Check takes
	s        *Store
	repair   bool
	queue    func(string, []store.Cell) []string // CheckOptions.Queue
	report   *Report
	modules  map[store.Digest]bool      // stored modules
	named    map[store.Digest]bool      // blobs that journals name: whether they are sound
	existing map[store.NamespaceID]bool // namespaces
	list     []store.NamespaceID        // with keys, ascending
	keys     map[string]bool            // ids of the keys with which records may be sealed
}

// whole notes a problem of the whole store.
func (c *checker) whole(kind, format string, args ...any) {
	c.report.Add(Problem{Kind: kind, Partition: -1, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) all() error {
	sound, err := c.format()
	if err != nil || !sound {
		return err
	}
	for _, step := range []func() error{c.namespaces, c.quotaRecords, c.limitRecords, c.tables, c.sealKeys, c.moduleInfos, c.wasm,
		c.versions, c.uses} {
		if err := step(); err != nil {
			return err
		}
	}
	for p := range store.PartitionID(store.Partitions) {
		if err := c.ctx.Err(); err != nil {
			return context.Cause(c.ctx)
		}
		x := &partitionCheck{checker: c, p: p, want: map[string][]byte{}}
		if err := x.all(); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	if err := c.holders(); err != nil {
		return err
	}
	return c.blobs()
}

// orphanPortion is how many orphans one commit removes. Each has at most 8 MiB, but the commit writes only the key.
const orphanPortion = 256

// removeOrphans removes large payloads that no journal names, with the keys that pin them. Only journals refer to
// payloads: versions name modules, and commands, schedules and output contain their data. It removes nothing while a
// problem is left, since an unreadable record may name an orphan.
func (c *checker) removeOrphans(orphans []store.Digest) error {
	if !c.repair || c.report.Left() > 0 {
		return nil
	}
	for portion := range slices.Chunk(orphans, orphanPortion) {
		if err := c.ctx.Err(); err != nil {
			return context.Cause(c.ctx)
		}
		b := c.s.db.NewBatch()
		removed := int64(0)
		for _, d := range portion {
			owned := false // a key says that a run has it, though no journal names it
			prefix := store.GlobalKey(0, store.TableReferred, d[:])
			err := c.s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
				owned = len(k) > len(prefix)
				return !owned, nil
			})
			if err != nil {
				c.s.drop(b)
				return err
			}
			if !owned {
				_ = b.Delete(store.GlobalKey(0, store.TableBlob, d[:]), nil)
				_ = b.Delete(prefix, nil)
				removed++
			}
		}
		err := c.apply(b)
		c.s.drop(b)
		if err != nil {
			return err
		}
		c.report.OrphansRemoved += removed
	}
	return nil
}

// format reads the format record, and reports whether the rest can be checked.
func (c *checker) format() (bool, error) {
	v, err := c.s.get(formatKey)
	if err != nil {
		return false, err
	}
	if len(v) != 3 || v[0] == 0 {
		c.whole("format", "the format record has %d bytes, want 3", len(v))
		return false, nil
	}
	c.report.Format = int(v[0])
	if v[0] > store.FormatVersion {
		return false, newerFormat(int(v[0]))
	}
	index, err := c.s.get(indexKey)
	if err != nil {
		return false, err
	}
	if v[0] < store.FormatVersion || index != nil {
		c.whole("format", "the store has format %d, and becomes one of format %d when a host opens it; verify it after that",
			v[0], store.FormatVersion)
		return false, nil
	}
	if n := binary.BigEndian.Uint16(v[1:]); n != store.Partitions {
		return false, fmt.Errorf("%w: %d partitions, this release has %d", store.ErrVersion, n, store.Partitions)
	}
	return true, nil
}

// each visits the records of a table.
func (c *checker) each(ns store.NamespaceID, p store.PartitionID, table byte, visit func(rest, v []byte) error) error {
	prefix := store.AppendPrefix(nil, ns, p, table)
	n := 0
	return c.s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
		n++
		if n%1024 == 0 && c.ctx.Err() != nil {
			return false, context.Cause(c.ctx)
		}
		return true, visit(k[len(prefix):], v)
	})
}

func (c *checker) namespaces() error {
	var newest store.NamespaceID
	v, err := c.s.get(namespaceCounter)
	if err != nil {
		return err
	}
	if len(v) == 4 {
		newest = store.NamespaceID(binary.BigEndian.Uint32(v))
	} else if v != nil {
		c.whole("namespace", "the newest namespace is a number of %d bytes, want 4", len(v))
	}
	return c.each(0, store.NoPartition, store.TableNamespace, func(rest, v []byte) error {
		ns, err := store.DecodeNamespace(v)
		switch {
		case err != nil:
			c.whole("namespace", "namespace %q: %v", rest, err)
		case ns.Name != string(rest):
			c.whole("namespace", "namespace %q is called %q in its record", rest, ns.Name)
		case ns.ID == 0 || ns.ID > newest || c.existing[ns.ID]:
			c.whole("namespace", "namespace %q has the id %d, which is not its own; the newest is %d", rest, ns.ID, newest)
		default:
			c.existing[ns.ID] = true
		}
		return nil
	})
}

// Tables of a partition and of the whole store, in this format. The tables in sharedTables are under namespace 0 only.
const (
	partitionTables = "sjwrcbkqntxidoghpeuy"
	sharedTables    = "wbnide"
	wholeTables     = "NAmMWBRQLPVKUO"
)

// tables checks which tables exist, without reading them.
func (c *checker) tables() (err error) {
	it, err := c.s.db.NewIter(nil)
	if err != nil {
		return err
	}
	const prefix = 7
	for ok := it.First(); ok; {
		k := it.Key()
		if len(k) < prefix {
			c.whole("key", "the key %x belongs to nothing", k)
			ok = it.Next()
			continue
		}
		ns, p, table := store.NamespaceID(binary.BigEndian.Uint32(k)), binary.BigEndian.Uint16(k[4:]), k[prefix-1:prefix]
		known := partitionTables
		if p == uint16(store.NoPartition) {
			known = wholeTables
		}
		switch {
		case p >= store.Partitions && p != uint16(store.NoPartition):
			c.whole("key", "there are keys of partition %d, of which there are %d", p, store.Partitions)
		case !bytes.Contains([]byte(known), table):
			c.whole("key", "there are keys of the table %q of partition %d, which is none", table, p)
		case !c.existing[ns]:
			c.whole("key", "there are keys of namespace %d in the table %q, which nobody has created", ns, table)
		case ns != 0 && (known == wholeTables && table[0] != store.TableWorkflow ||
			known == partitionTables && bytes.Contains([]byte(sharedTables), table)):
			c.whole("key", "there are keys of the table %q under namespace %d, want 0", table, ns)
		}
		if len(c.list) == 0 || c.list[len(c.list)-1] != ns {
			c.list = append(c.list, ns)
		}
		ok = it.SeekGE(store.PrefixEnd(bytes.Clone(k[:prefix])))
	}
	return firstError(it.Error(), it.Close())
}

// quotaRecords checks that each quota belongs to a namespace.
func (c *checker) quotaRecords() error {
	return c.each(0, store.NoPartition, store.TableQuota, func(rest, v []byte) error {
		q, err := store.DecodeQuota(v)
		switch {
		case err != nil:
			c.whole("quota", "the quota of key %x: %v", rest, err)
		case !bytes.Equal(store.QuotaKey(q.Namespace)[len(store.GlobalKey(0, store.TableQuota, nil)):], rest):
			c.whole("quota", "the quota of key %x is that of namespace %d", rest, q.Namespace)
		case !c.existing[q.Namespace]:
			c.whole("quota", "there is a quota of namespace %d, which nobody has created", q.Namespace)
		}
		return nil
	})
}

// digest reads a key that is a digest.
func (c *checker) digest(kind string, rest []byte) (d store.Digest, ok bool) {
	if copy(d[:], rest); len(rest) != len(d) {
		c.whole(kind, "the key of a %s has %d bytes, want %d", kind, len(rest), len(d))
		return d, false
	}
	return d, true
}

// moduleInfos checks that each module has its bytes.
func (c *checker) moduleInfos() error {
	return c.each(0, store.NoPartition, store.TableModule, func(rest, v []byte) error {
		d, ok := c.digest("module", rest)
		if !ok {
			return nil
		}
		c.report.Modules++
		c.modules[d] = true
		if _, err := store.DecodeModuleInfo(v); err != nil {
			c.whole("module", "module %s: %v", d, err)
		}
		_, err := modules{c.s}.Get(c.ctx, d)
		if err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrVersion) {
			return err
		}
		if err != nil {
			c.whole("module", "module %s: %v", d, err)
		}
		return nil
	})
}

// wasm checks that all bytes of modules belong to a module.
func (c *checker) wasm() error {
	return c.each(0, store.NoPartition, store.TableWasm, func(rest, _ []byte) error {
		if d, ok := c.digest("module", rest); ok && !c.modules[d] {
			c.whole("module", "there are bytes of the module %s, of which nothing is known", d)
		}
		return nil
	})
}

func (c *checker) versions() error {
	for _, ns := range c.list {
		err := c.each(ns, store.NoPartition, store.TableWorkflow, func(rest, b []byte) error {
			v, err := store.DecodeVersion(b)
			switch {
			case err != nil:
				c.whole("module", "the version with the key %q: %v", rest, err)
			case !bytes.Equal(store.VersionKey(v.Namespace, v.Workflow, v.Number), append(store.AppendPrefix(nil, ns, store.NoPartition,
				store.TableWorkflow), rest...)):
				c.whole("module", "the version %s@%d has the key of another one, %q", v.Workflow, v.Number, rest)
			case !v.Deleted && !c.modules[v.Module]:
				c.whole("module", "the module %s of %s@%d is not there", v.Module, v.Workflow, v.Number)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blobs checks the bytes of large payloads, and counts the orphans.
func (c *checker) blobs() error {
	var orphans []store.Digest
	err := c.each(0, store.NoPartition, store.TableBlob, func(rest, v []byte) error {
		d, ok := c.digest("blob", rest)
		if !ok {
			return nil
		}
		c.report.Blobs++
		sound, named := c.named[d]
		if !named {
			sound = digestOf(v) == d
			if !c.modules[d] {
				c.report.Orphans++
				c.report.OrphanBytes += int64(len(v))
				orphans = append(orphans, d)
			}
		}
		if !sound {
			c.whole("blob", "blob %s is damaged", d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.removeOrphans(orphans)
}

// apply writes a repair, durably.
func (c *checker) apply(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	return c.s.sync(b, nil)
}
