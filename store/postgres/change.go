package postgres

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/wfhost/wfhost/store"
)

// tailBytes bounds the end of a journal that is in the row of its run. A row below 2 kB is not taken apart by PostgreSQL, and an
// update finds room for its new version in the page of the old one.
const tailBytes = 1024

// pieceBytes is the size at which a chunk of many entries ends and the next one begins.
const pieceBytes = 64 << 10

// change is what a commit does, as arguments of wfhost.commit and wfhost.commit_all. A field is an array, and arrays with one
// letter have an element for each row.
type change struct {
	ps     []int16
	tokens [][16]byte

	r struct { // runs that are new or changed
		ns               []int32
		id               []string
		p                []int16
		rev              []*int64 // nil: new
		iteration        []int32
		status           []int16
		listed           []*int16
		deleted          []bool
		workflow         []string
		version          []int32
		created          []int64
		wake, due, ended []*int64
		attributes       []*string
		tailFirst        []int64
		tail             [][]byte
		flush            []int16
		state            [][]byte
		group, run       []int // where the caller has it
	}
	c struct { // chunks of journals
		ns        []int32
		id        []string
		iteration []int32
		first     []int64
		data      [][]byte
	}
	counts map[counted]int64
	rest   rest
}

// rest is what few commits have.
type rest struct {
	d struct { // runs that are deleted with their records
		ns         []int32
		id         []string
		rev        []int64
		group, run []int
	}
	l, o lines // log lines and output
	k    struct {
		ns       []int32
		id       []string
		from, to []int32
	}
	a struct {
		ns         []int32
		key, value []string
		created    []int64
		id         []string
		set        []bool
	}
	w struct {
		p, kind []int16
		ns      []int32
		id      []string
		wake    []int64
		due     []*int64 // nil: remove
	}
	i struct {
		p   []int16
		seq []int64
	}
	q struct {
		ns         []int32
		queue      []string
		key, value [][]byte
		group      []int
	}
	y struct {
		ns         []int32
		queue      []string
		key, value [][]byte
		expired    []bool
	}
	s struct {
		ns        []int32
		id        []string
		p         []int16
		revision  []int64
		wake, due []*int64
		data      [][]byte
		group, at []int
	}
	out outbox
}

type lines struct {
	ns   []int32
	id   []string
	n    []int64
	data [][]byte
}

func (x *lines) add(run store.RunKey, n uint64, data []byte) {
	x.ns, x.id, x.n, x.data = append(x.ns, int32(run.Namespace)), append(x.id, run.ID), append(x.n, int64(n)), append(x.data, data)
}

// counted is the key of a count; status 0 is for the bytes.
type counted struct {
	ns       store.NamespaceID
	workflow string
	version  uint32
	status   store.Status
}

func (k counted) compare(o counted) int {
	return cmp.Or(cmp.Compare(k.ns, o.ns), cmp.Compare(k.workflow, o.workflow), cmp.Compare(k.version, o.version),
		cmp.Compare(k.status, o.status))
}

// count adds a run to the counts n times.
func (c *change) count(st *store.RunState, n int64) {
	if st.Deleted {
		return
	}
	if c.counts == nil {
		c.counts = map[counted]int64{}
	}
	k := counted{st.Run.Namespace, st.Workflow, st.Version, st.Status}
	c.counts[k] += n
	k.status = 0
	c.counts[k] += n * st.UsageBytes()
}

// legal reports whether a text can be stored.
func legal(text string) bool {
	for i := range len(text) {
		if text[i] == 0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

// addRun adds the change of one run. old is its record before the commit, nil if it is new or not known to exist. It returns the
// record after the commit.
func (c *change) addRun(g, j int, x *store.RunCommit, old *record) (*record, error) {
	if err := c.lists(x); err != nil {
		return nil, err
	}
	if x.Delete || x.Create && old != nil {
		c.remove(g, j, x.Run, old)
		if x.Delete && !x.State.Deleted {
			return absent, nil
		}
		old = nil
	}
	if x.Delete {
		next := &record{state: x.State}
		return next, c.add(g, j, x.Run, next, nil, nil, 0)
	}
	next := &record{state: x.State}
	next.state.Length = x.Expect + store.Seq(len(x.Append))
	tail, flush, err := c.journal(x, old, next)
	if err != nil {
		return nil, err
	}
	if old != nil && x.State.Kept > old.state.Kept {
		k := &c.rest.k
		k.ns, k.id = append(k.ns, int32(x.Run.Namespace)), append(k.id, x.Run.ID)
		k.from, k.to = append(k.from, int32(old.state.Kept)), append(k.to, int32(x.State.Kept))
	}
	return next, c.add(g, j, x.Run, next, old, tail, flush)
}

// lists adds log lines, output, commands and acknowledgements.
func (c *change) lists(x *store.RunCommit) error {
	if !x.Delete {
		for i := range x.Logs {
			b := store.AppendLogLine(nil, &x.Logs[i])
			if err := store.CheckRecord("log line", b); err != nil {
				return err
			}
			c.rest.l.add(x.Run, x.Logs[i].Index, b)
		}
		for i := range x.Output {
			b := store.AppendChunk(nil, &x.Output[i])
			if err := store.CheckRecord("output", b); err != nil {
				return err
			}
			c.rest.o.add(x.Run, x.Output[i].Index, b)
		}
	}
	c.ack(x.Run.Partition(), x.Ack)
	return c.rest.out.add(x.Outbox)
}

func (c *change) ack(p store.PartitionID, acks []store.CommandSeq) {
	for _, seq := range acks {
		c.rest.i.p, c.rest.i.seq = append(c.rest.i.p, int16(p)), append(c.rest.i.seq, int64(seq))
	}
}

// remove deletes a run with its records.
func (c *change) remove(g, j int, run store.RunKey, old *record) {
	d := &c.rest.d
	d.ns, d.id, d.rev = append(d.ns, int32(run.Namespace)), append(d.id, run.ID), append(d.rev, old.rev)
	d.group, d.run = append(d.group, g), append(d.run, j)
	c.count(&old.state, -1)
	c.attributes(run, &old.state, nil)
}

// Values of r_flush.
const (
	appendTail  = 0 // append to the tail
	replaceTail = 1
	flushTail   = 2 // make the tail a chunk, then replace it
)

// journal adds the entries of a run. It returns the new tail, or what is appended to it.
func (c *change) journal(x *store.RunCommit, old, next *record) (tail []byte, flush int16, err error) {
	for i := range x.Earlier {
		it := &x.Earlier[i]
		if err := c.chunks(x.Run, it.Iteration, 0, it.Append); err != nil {
			return nil, 0, fmt.Errorf("iteration %d: %w", it.Iteration, err)
		}
	}
	if b := x.Before; b != nil {
		if n := old.length(b.Iteration); n != b.Expect {
			return nil, 0, fmt.Errorf("%w: iteration %d has %d entries, the commit expects %d", store.ErrConflict, b.Iteration, n,
				b.Expect)
		}
		if err := c.chunks(x.Run, b.Iteration, b.Expect, b.Append); err != nil {
			return nil, 0, fmt.Errorf("iteration %d: %w", b.Iteration, err)
		}
	}
	it := x.State.Iteration
	if n := old.length(it); n != x.Expect {
		return nil, 0, fmt.Errorf("%w: it has %d entries, the commit expects %d", store.ErrConflict, n, x.Expect)
	}
	flush = replaceTail
	if old != nil && old.tailBytes > 0 {
		flush = flushTail
	}
	pieces, err := encode(nil, x.Expect, x.Append)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case old != nil && old.state.Iteration == it && len(pieces) == 0:
		next.tailFirst, next.tailBytes = old.tailFirst, old.tailBytes
		return []byte{}, appendTail, nil
	case len(pieces) == 0:
		return []byte{}, flush, nil
	case len(pieces) > 1 || len(pieces[0].data) > tailBytes:
		c.addChunks(x.Run, it, pieces)
		next.tailFirst = next.state.Length
		return []byte{}, flush, nil
	}
	tail = pieces[0].data
	if old != nil && old.state.Iteration == it && old.tailBytes+len(tail) <= tailBytes {
		next.tailFirst, next.tailBytes = old.tailFirst, old.tailBytes+len(tail)
		return tail, appendTail, nil
	}
	next.tailFirst, next.tailBytes = x.Expect, len(tail)
	return tail, flush, nil
}

// length returns the number of entries of an iteration. r may be nil.
func (r *record) length(iteration uint32) store.Seq {
	if r == nil || r.state.Iteration != iteration {
		return 0
	}
	return r.state.Length
}

// piece is a sequence of entries: for each its length, uvarint, and its record.
type piece struct {
	first store.Seq
	data  []byte
}

// encode returns entries in pieces of about pieceBytes.
func encode(pieces []piece, expect store.Seq, entries []store.Entry) ([]piece, error) {
	var body []byte
	for i := range entries {
		e := &entries[i]
		if want := expect + store.Seq(i); e.Seq != want {
			return nil, fmt.Errorf("%w: entry %d where %d belongs", store.ErrConflict, e.Seq, want)
		}
		if n := len(pieces); n == 0 || len(pieces[n-1].data) >= pieceBytes {
			pieces = append(pieces, piece{first: e.Seq})
		}
		body = store.AppendEntry(body[:0], e)
		if size := len(body) - len(e.Input) - len(e.Data); size > store.MaxRecordBytes {
			return nil, store.CheckRecord("entry", body[:size])
		}
		p := &pieces[len(pieces)-1]
		p.data = append(binary.AppendUvarint(p.data, uint64(len(body))), body...)
	}
	return pieces, nil
}

func (c *change) chunks(run store.RunKey, iteration uint32, expect store.Seq, entries []store.Entry) error {
	pieces, err := encode(nil, expect, entries)
	c.addChunks(run, iteration, pieces)
	return err
}

func (c *change) addChunks(run store.RunKey, iteration uint32, pieces []piece) {
	for _, p := range pieces {
		c.c.ns, c.c.id = append(c.c.ns, int32(run.Namespace)), append(c.c.id, run.ID)
		c.c.iteration, c.c.first = append(c.c.iteration, int32(iteration)), append(c.c.first, int64(p.first))
		c.c.data = append(c.c.data, p.data)
	}
}

// add adds the row of a run.
func (c *change) add(g, j int, run store.RunKey, next, old *record, tail []byte, flush int16) error {
	st := &next.state
	state := store.AppendState(nil, st)
	if err := store.CheckRecord("run state", state); err != nil {
		return err
	}
	if tail == nil {
		tail = []byte{}
	}
	var rev *int64
	var before *store.RunState
	if old != nil {
		rev, before, next.rev = &old.rev, &old.state, old.rev+1
		c.count(before, -1)
	}
	c.count(st, 1)
	c.attributes(run, before, st)
	next.listed = listedOf(old, st)
	attributes, err := attributeJSON(st)
	if err != nil {
		return err
	}
	r := &c.r
	r.ns, r.id = append(r.ns, int32(run.Namespace)), append(r.id, run.ID)
	r.p, r.rev = append(r.p, int16(run.Partition())), append(r.rev, rev)
	r.iteration, r.status = append(r.iteration, int32(st.Iteration)), append(r.status, int16(st.Status))
	r.listed, r.deleted = append(r.listed, nullStatus(next.listed)), append(r.deleted, st.Deleted)
	r.workflow, r.version = append(r.workflow, st.Workflow), append(r.version, int32(st.Version))
	wake, due := wakeOf(st.WakeUnixMs)
	if st.Deleted {
		wake, due = nil, nil
	}
	r.created, r.wake, r.due = append(r.created, st.CreatedUnixMs), append(r.wake, wake), append(r.due, due)
	r.ended, r.attributes = append(r.ended, endedOf(st)), append(r.attributes, attributes)
	r.tailFirst, r.tail, r.flush = append(r.tailFirst, int64(next.tailFirst)), append(r.tail, tail), append(r.flush, flush)
	r.state, r.group, r.run = append(r.state, state), append(r.group, g), append(r.run, j)
	return nil
}

// wakeOf returns the place of a wake in the index, nil for none, and the deadline if it is another one.
func wakeOf(unixMs int64) (wake, due *int64) {
	switch at := max(unixMs, 0); {
	case unixMs == store.NoWake:
		return nil, nil
	case unixMs < 0:
		return &at, &unixMs
	default:
		return &at, nil
	}
}

// endedOf returns the instant by which Ended finds a run, nil if it does not.
func endedOf(st *store.RunState) *int64 {
	var at int64
	switch {
	case st.Deleted:
		at = max(st.UpdatedUnixMs, 0)
	case st.Status.Terminal():
		at = max(st.RetainedUnixMs(), 0)
	default:
		return nil
	}
	return &at
}

// listedOf returns the status whose list has a run after a commit, 0 for none. A run that slept or waited stays in its list
// while it is busy, so that most wakes change no list.
func listedOf(old *record, st *store.RunState) store.Status {
	switch {
	case st.Deleted:
		return 0
	case !st.Status.Busy():
		return st.Status
	case old != nil && (old.listed == store.Sleeping || old.listed == store.Waiting):
		return old.listed
	}
	return 0
}

func nullStatus(s store.Status) *int16 {
	if s == 0 {
		return nil
	}
	v := int16(s)
	return &v
}

func attributeJSON(st *store.RunState) (*string, error) {
	if len(st.Attributes) == 0 || st.Deleted {
		return nil, nil
	}
	m := make(map[string]string, len(st.Attributes))
	for _, a := range st.Attributes {
		if !legal(a.Key) || !legal(a.Value) {
			return nil, badText("attribute", a.Key+"="+a.Value)
		}
		m[a.Key] = a.Value
	}
	b, err := json.Marshal(m)
	text := string(b)
	return &text, err
}

// attributes changes the list of runs by attribute. old and now may be nil.
func (c *change) attributes(run store.RunKey, old, now *store.RunState) {
	set := func(st *store.RunState, a store.Attribute, set bool) {
		x := &c.rest.a
		x.ns, x.key, x.value = append(x.ns, int32(run.Namespace)), append(x.key, a.Key), append(x.value, a.Value)
		x.created, x.id, x.set = append(x.created, st.CreatedUnixMs), append(x.id, run.ID), append(x.set, set)
	}
	has := func(st, other *store.RunState, a store.Attribute) bool {
		return st != nil && !st.Deleted && st.CreatedUnixMs == other.CreatedUnixMs && slices.Contains(st.Attributes, a)
	}
	if old != nil && !old.Deleted {
		for _, a := range old.Attributes {
			if !has(now, old, a) {
				set(old, a, false)
			}
		}
	}
	if now != nil && !now.Deleted {
		for _, a := range now.Attributes {
			if !has(old, now, a) {
				set(now, a, true)
			}
		}
	}
}
