package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Read reads an archive from beginning to end and checks all of it: the checksums, that records decode, that journals
// have no gaps and keep the rules of journals, and that they belong to the state and the module. An error wraps
// ErrInvalid, or store.ErrVersion if a newer release wrote the archive, or is the error of r. The checks do not prove
// where an archive comes from: its author can give it any journal that keeps the rules.
func Read(r io.Reader) (*Run, error) {
	return newReader(r).all()
}

func newReader(r io.Reader) *reader { return &reader{tar: tar.NewReader(r), run: &Run{}} }

func (in *reader) all() (*Run, error) {
	if err := in.state(); err != nil {
		return nil, err
	}
	m, err := in.parts()
	if err != nil {
		return nil, err
	}
	if err := in.end(m); err != nil {
		return nil, err
	}
	return in.run, in.run.check(&in.journal)
}

// Workflow returns the workflow of an archive. It reads only the beginning.
func Workflow(r io.Reader) (string, error) {
	in := newReader(r)
	err := in.state()
	return in.run.State.Workflow, err
}

// RunID returns the id of the run of an archive. It reads only the beginning.
func RunID(r io.Reader) (string, error) {
	in := newReader(r)
	err := in.state()
	return in.run.State.Run.ID, err
}

type reader struct {
	tar     *tar.Reader
	run     *Run
	files   []File
	kind    string // of the newest part
	number  int    // of the next part of that kind
	journal journal.Journal
	at      uint32 // the iteration that journal is of
	begun   bool   // an entry was read
	bytes   int64  // of the records of the iteration at
	logs    uint64 // index of the next line
	output  uint64 // index of the next chunk
	refolds int    // entries that were read again for retries
	keep    *Whole // nil: records before the newest iteration, the log and the output are checked and dropped
}

// next returns the name and the bytes of the next member. limit returns the most bytes that a member may have, and -1
// for a member that must not come next.
func (r *reader) next(limit func(name string) int64) (string, []byte, error) {
	h, err := r.tar.Next()
	if errors.Is(err, io.EOF) {
		return "", nil, invalid("it ends before its manifest")
	}
	if err != nil {
		return "", nil, wrap(err)
	}
	most := limit(h.Name)
	switch {
	case h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0: // PAX records include holes, which make members long
		return "", nil, invalid("%q is not a plain regular file", h.Name)
	case most < 0:
		return "", nil, invalid("%q does not belong here", h.Name)
	case h.Size > most:
		return "", nil, invalid("%q has %d bytes, the limit is %d", h.Name, h.Size, most)
	}
	var b bytes.Buffer // grows with the bytes read, not with the claimed size
	n, err := io.Copy(&b, r.tar)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", nil, wrap(err)
	}
	return h.Name, b.Bytes(), nil
}

// wrap makes an error of package tar, or an early end of the file, an ErrInvalid.
func wrap(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// only returns a limit for next that allows a single name.
func only(name string, limit int64) func(string) int64 {
	return func(got string) int64 {
		if got != name {
			return -1
		}
		return limit
	}
}

func (r *reader) state() error {
	name, b, err := r.next(only(stateName, store.MaxRecordBytes))
	if err != nil {
		return err
	}
	r.files = append(r.files, fileOf(name, b))
	st, err := store.DecodeState(b)
	if err != nil {
		return unsound(name, err)
	}
	if st.Run.Namespace != 0 || st.Deleted || st.Sealed {
		return invalid("its state has a namespace, is encrypted, or is that of a deleted run")
	}
	if err := errors.Join(abi.CheckRunID(st.Run.ID), abi.CheckWorkflow(st.Workflow)); err != nil {
		return invalid("its state: %w", err)
	}
	r.run.State = st
	return nil
}

// unsound adds the name of a member to an error, and wraps it in ErrInvalid unless it is store.ErrVersion or store.ErrTooLarge.
func unsound(name string, err error) error {
	if errors.Is(err, store.ErrVersion) || errors.Is(err, store.ErrTooLarge) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return invalid("%s: %w", name, err)
}

// module checks the module against the state, and keeps it.
func (r *reader) module(b []byte) error {
	if got := store.Digest(sha256.Sum256(b)); got != r.run.State.Module {
		return invalid("its module is %s, and its run has %s", got, r.run.State.Module)
	}
	r.run.Module = b
	return nil
}

// kinds are the kinds of members with records, in their order.
var kinds = []string{journalName, logsName, outputName}

// parts reads the module, if there is one, and the records. It returns the manifest, which follows them.
func (r *reader) parts() ([]byte, error) {
	r.kind = journalName
	for len(r.files) <= maxParts+1 {
		name, b, err := r.next(func(name string) int64 {
			switch {
			case name == manifestName:
				return maxManifestBytes
			case name == moduleName && len(r.files) == 1:
				return abi.MaxModuleBytes
			}
			return r.expect(name)
		})
		if err != nil {
			return nil, err
		}
		if name == manifestName {
			return b, nil
		}
		r.files = append(r.files, fileOf(name, b))
		if name == moduleName {
			if err := r.module(b); err != nil {
				return nil, err
			}
			continue
		}
		r.number++
		if err := r.records(b); err != nil {
			return nil, unsound(name, err)
		}
	}
	return nil, invalid("it has more than %d parts", maxParts)
}

// expect returns the size limit of the next part, or -1 if it must not come now. It must have the kind of the previous
// part and the next number, or be the first part of a later kind.
func (r *reader) expect(name string) int64 {
	if name == partName(r.kind, r.number) {
		return maxPartBytes
	}
	for _, kind := range kinds[slices.Index(kinds, r.kind)+1:] {
		if name == partName(kind, 0) {
			r.kind, r.number = kind, 0
			return maxPartBytes
		}
	}
	return -1
}

// records reads the records of a part.
func (r *reader) records(b []byte) error {
	for len(b) > 0 {
		iteration := uint64(0)
		if r.kind == journalName {
			n := 0
			iteration, n = binary.Uvarint(b)
			if n <= 0 {
				return errors.New("an entry without iteration")
			}
			b = b[n:]
		}
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return fmt.Errorf("a record claims %d bytes, %d are left", size, max(len(b)-n, 0))
		}
		record := b[n : n+int(size)]
		b = b[n+int(size):]
		var err error
		switch r.kind {
		case journalName:
			err = r.entry(iteration, record)
		case logsName:
			err = r.line(record)
		default:
			err = r.chunk(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry reads an entry. Journals of iterations before the newest one are checked, and dropped unless keep is set.
func (r *reader) entry(iteration uint64, record []byte) error {
	newest, first := uint64(r.run.State.Iteration), !r.begun
	switch {
	case iteration > newest:
		return fmt.Errorf("an entry of iteration %d, the newest is %d", iteration, newest)
	case first:
		r.at = uint32(iteration)
	case r.gap() && iteration == uint64(r.run.State.Kept):
		r.keep.iteration(0, &r.journal)
		r.journal, r.at, r.bytes = journal.Journal{}, uint32(iteration), 0
	case r.gap():
		return fmt.Errorf("an entry of iteration %d, its state says that iterations are kept from %d on", iteration, r.run.State.Kept)
	case iteration == uint64(r.at)+1 && r.journal.Ended() == store.KindContinued:
		r.keep.iteration(r.at, &r.journal)
		r.journal, r.at, r.bytes = journal.Journal{}, uint32(iteration), 0
	case iteration != uint64(r.at):
		return fmt.Errorf("an entry of iteration %d stands behind one of iteration %d, which has not continued as new", iteration, r.at)
	}
	r.begun = true
	r.bytes += int64(len(record))
	if r.bytes > 2*abi.MaxJournalBytes || r.journal.Len() >= 2*abi.MaxEntries {
		return fmt.Errorf("the journal of iteration %d has more than %d bytes or %d entries", iteration, 2*abi.MaxJournalBytes,
			2*abi.MaxEntries)
	}
	e, err := store.DecodeEntry(record)
	if err == nil {
		err = r.keep.count(record)
	}
	if err != nil {
		return err
	}
	if e.Sealed {
		return fmt.Errorf("entry %d is encrypted", e.Seq)
	}
	if e.Kind == store.KindRetried {
		r.refolds += r.journal.Len()
		if r.refolds > maxRefolds {
			return fmt.Errorf("its retries, up to entry %d, have %d entries read again, the limit is %d", e.Seq, r.refolds, maxRefolds)
		}
	}
	if err := r.journal.Load(e); err != nil || !first {
		return err
	}
	return r.begins()
}

// begins checks the iteration of entry 0, the first one in the archive. It is iteration 0, unless the run repeats a
// later iteration of another run: then it is that iteration, or the first one that the retention has kept.
func (r *reader) begins() error {
	kept := r.run.State.Kept
	if r.at == 0 || r.journal.Started().RunAttempt > 1 && (kept == 0 || kept == r.at) {
		return nil
	}
	return fmt.Errorf("it begins with iteration %d", r.at)
}

// gap reports whether the next iteration is the first one that the retention has kept: of the iterations before it, the
// archive has only entry 0 of iteration 0.
func (r *reader) gap() bool { return r.run.State.Kept > 0 && r.at == 0 && r.journal.Len() == 1 }

func (r *reader) line(record []byte) error {
	l, err := store.DecodeLogLine(record)
	if err == nil && (l.Sealed || l.Index < r.logs) {
		err = fmt.Errorf("line %d is encrypted, or stands behind line %d", l.Index, r.logs)
	}
	r.logs = l.Index + 1
	r.run.Logs++
	r.keep.line(&l)
	return errors.Join(err, r.keep.count(record))
}

func (r *reader) chunk(record []byte) error {
	c, err := store.DecodeChunk(record)
	if err == nil && (c.Sealed || c.Index < r.output) {
		err = fmt.Errorf("chunk %d is encrypted, or stands behind chunk %d", c.Index, r.output)
	}
	if err == nil && c.Index >= r.run.State.Output {
		err = fmt.Errorf("it has chunk %d of its output, and its state says %d chunks", c.Index, r.run.State.Output)
	}
	r.output = c.Index + 1
	r.run.Output++
	r.keep.chunk(&c)
	return errors.Join(err, r.keep.count(record))
}

// end compares the manifest with the members that were read, and checks that the archive ends there.
func (r *reader) end(manifest []byte) error {
	var m, head Manifest
	if err := json.Unmarshal(manifest, &head); err != nil {
		return invalid("its manifest: %w", err)
	}
	if head.Format != formatName {
		return invalid("its manifest has the format %q, want %q", head.Format, formatName)
	}
	if head.Version > Version {
		return fmt.Errorf("%w: the archive has version %d, this release knows %d", store.ErrVersion, head.Version, Version)
	}
	d := json.NewDecoder(bytes.NewReader(manifest))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return invalid("its manifest: %w", err)
	}
	want := manifestOf(&r.run.State, m.Files)
	if m.Version != want.Version || m.Run != want.Run || m.Workflow != want.Workflow || m.Status != want.Status ||
		m.Iteration != want.Iteration || m.Entries != want.Entries || m.Module != want.Module ||
		m.Moved != want.Moved {
		return invalid("its manifest describes another run than its state")
	}
	if len(m.Files) != len(r.files) {
		return invalid("its manifest lists %d files, and there are %d", len(m.Files), len(r.files))
	}
	for i, f := range r.files {
		if f != m.Files[i] {
			return invalid("%q is not what the manifest says: %d bytes with the SHA-256 %s, want %d with %s", f.Name, f.Size, f.SHA256,
				m.Files[i].Size, m.Files[i].SHA256)
		}
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return invalid("something stands behind its manifest")
	}
	if r.at != r.run.State.Iteration || r.journal.Len() == 0 {
		return invalid("its journal ends in iteration %d, and the run has come to %d", r.at, r.run.State.Iteration)
	}
	return nil
}

// check compares the state with the journal of its iteration. It sets JournalBytes from the journal, since the value in
// the state is not trusted.
func (r *Run) check(j *journal.Journal) error {
	st := &r.State
	r.Entries = j.All()
	st.JournalBytes = j.Bytes() // the host reserves memory by it
	s, module := j.Started(), j.Started().Module
	for i := range r.Entries {
		if e := &r.Entries[i]; e.Kind == store.KindMigrated || e.Kind == store.KindRetried && e.Target != "" {
			module = e.Target
		}
	}
	end := j.Ended().Status()
	switch {
	case s.RunID != st.Run.ID || s.Workflow != st.Workflow || s.Iteration != st.Iteration:
		return invalid("its journal is that of run %q of %q, iteration %d, and its state that of %q of %q, iteration %d", s.RunID,
			s.Workflow, s.Iteration, st.Run.ID, st.Workflow, st.Iteration)
	case !strings.EqualFold(module, st.Module.String()):
		return invalid("its journal names the module %s, and its state %s", module, st.Module)
	case int(st.Length) != j.Len():
		return invalid("its journal has %d entries, and its state says %d", j.Len(), st.Length)
	case st.Suspension.Seq > st.Length:
		return invalid("its state waits behind entry %d of %d", st.Suspension.Seq, st.Length)
	case (j.Aside() == store.AsideMoved) != (st.Aside == store.AsideMoved):
		return invalid("its journal and its state do not agree on whether it was moved")
	case end != 0 && st.Status != end, end == 0 && st.Status.Terminal():
		return invalid("its journal ends with %s, and its state says %s", j.Ended(), st.Status)
	}
	return nil
}
