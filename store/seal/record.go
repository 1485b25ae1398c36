package seal

import (
	"encoding/binary"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// The kinds of locations, as their first byte. Numbers are never reused.
const (
	atKey      = 1 // the check text of a key: the id
	atEntry    = 2 // run, iteration u32be, seq u64be, kind u8
	atLog      = 3 // run, index u64be
	atOutput   = 4 // run, index u64be
	atCommand  = 5 // receiver, sender's incarnation 16 B, iteration u32be, seq u64be
	atState    = 6 // the state as stored, without the reason
	atSchedule = 7 // the schedule as stored, without the data
	atMemo     = 8 // run, its incarnation 16 B
)

// locationBytes is more than most locations take.
const locationBytes = 96

// location returns the beginning of a location for a record of a run: kind u8, namespace u32be, length of the id uvarint, id.
func location(kind byte, run store.RunKey) []byte {
	b := append(make([]byte, 0, locationBytes), kind)
	b = binary.BigEndian.AppendUint32(b, uint32(run.Namespace))
	return append(binary.AppendUvarint(b, uint64(len(run.ID))), run.ID...)
}

func entryLocation(run store.RunKey, iteration uint32, e *store.Entry) []byte {
	b := binary.BigEndian.AppendUint32(location(atEntry, run), iteration)
	return append(binary.BigEndian.AppendUint64(b, uint64(e.Seq)), byte(e.Kind))
}

func indexLocation(kind byte, run store.RunKey, index uint64) []byte {
	return binary.BigEndian.AppendUint64(location(kind, run), index)
}

func commandLocation(c *store.Command) []byte {
	b := append(location(atCommand, c.To), c.ID.Incarnation[:]...)
	b = binary.BigEndian.AppendUint32(b, c.ID.Iteration)
	return binary.BigEndian.AppendUint64(b, uint64(c.ID.Seq))
}

// record returns a sealed record, or an error if it is too large to be decoded again.
func (s *sealer) record(what string, location, b []byte) ([]byte, error) {
	if err := store.CheckRecord(what, b); err != nil {
		return nil, err
	}
	return s.seal(location, b)
}

// sealEntries returns the sealed form of entries of an iteration.
func (s *sealer) sealEntries(run store.RunKey, iteration uint32, entries []store.Entry) ([]store.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	sealed := make([]store.Entry, len(entries))
	var scratch []byte
	for i := range entries {
		e := &entries[i]
		scratch = store.AppendEntry(scratch[:0], e)
		data, err := s.record("entry", entryLocation(run, iteration, e), scratch)
		if err != nil {
			return nil, err
		}
		sealed[i] = store.Entry{Seq: e.Seq, Kind: e.Kind, UnixMs: e.UnixMs, Data: data, Sealed: true}
	}
	return sealed, nil
}

// openEntry decodes an stored entry.
func (s *sealer) openEntry(run store.RunKey, iteration uint32, e *store.Entry) error {
	if !e.Sealed {
		return nil
	}
	b, err := s.open(entryLocation(run, iteration, e), e.Data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	seq, kind := e.Seq, e.Kind
	*e, err = store.DecodeEntry(b)
	if err == nil && (e.Seq != seq || e.Kind != kind || e.Sealed) {
		err = fmt.Errorf("%w: it says that it is entry %d of kind %v, want %d of kind %v", store.ErrCorrupt, e.Seq, e.Kind, seq, kind)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", seq, err)
	}
	return nil
}

func (s *sealer) sealLogs(run store.RunKey, lines []store.LogLine) ([]store.LogLine, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	sealed := make([]store.LogLine, len(lines))
	for i := range lines {
		l := &lines[i]
		text, err := s.record("log line", indexLocation(atLog, run, l.Index), store.AppendLogLine(nil, l))
		if err != nil {
			return nil, err
		}
		sealed[i] = store.LogLine{Index: l.Index, UnixMs: l.UnixMs, Text: string(text), Sealed: true}
	}
	return sealed, nil
}

func (s *sealer) openLog(run store.RunKey, l *store.LogLine) error {
	if !l.Sealed {
		return nil
	}
	b, err := s.open(indexLocation(atLog, run, l.Index), []byte(l.Text))
	if err == nil {
		*l, err = store.DecodeLogLine(b)
	}
	return err
}

func (s *sealer) sealOutput(run store.RunKey, chunks []store.Chunk) ([]store.Chunk, error) {
	if len(chunks) == 0 {
		return nil, nil
	}
	sealed := make([]store.Chunk, len(chunks))
	for i := range chunks {
		c := &chunks[i]
		data, err := s.record("output", indexLocation(atOutput, run, c.Index), store.AppendChunk(nil, c))
		if err != nil {
			return nil, err
		}
		sealed[i] = store.Chunk{Index: c.Index, UnixMs: c.UnixMs, Data: data, Sealed: true}
	}
	return sealed, nil
}

func (s *sealer) openChunk(run store.RunKey, c *store.Chunk) error {
	if !c.Sealed {
		return nil
	}
	b, err := s.open(indexLocation(atOutput, run, c.Index), c.Data)
	if err == nil {
		*c, err = store.DecodeChunk(b)
	}
	return err
}

// sealCommand returns the sealed form of a command. Its number is assigned by the inbox, so it is not sealed.
func (s *sealer) sealCommand(c *store.Command) (store.Command, error) {
	whole := *c
	whole.Seq = 0
	data, err := s.record("command", commandLocation(c), store.AppendCommand(nil, &whole))
	return store.Command{Seq: c.Seq, ID: c.ID, Kind: c.Kind, To: c.To, ToIncarnation: c.ToIncarnation, Data: data, Sealed: true}, err
}

func (s *sealer) sealCommands(commands []store.Command) (sealed []store.Command, err error) {
	for i := range commands {
		c, err := s.sealCommand(&commands[i])
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, c)
	}
	return sealed, nil
}

func (s *sealer) openCommand(c *store.Command) error {
	if !c.Sealed {
		return nil
	}
	b, err := s.open(commandLocation(c), c.Data)
	if err != nil {
		return err
	}
	seq := c.Seq
	*c, err = store.DecodeCommand(b)
	c.Seq = seq
	return err
}

// sealState returns the sealed form of a state: Reason holds the sealed digest of the input and reason, and the memo is
// sealed by itself. All other fields are the location, so a state that was changed does not decode.
func (s *sealer) sealState(st *store.RunState) (store.RunState, error) {
	sealed := *st
	if st.Memo != "" {
		b, err := s.seal(memoPlace(st), []byte(st.Memo))
		if err != nil {
			return sealed, err
		}
		sealed.Memo = string(b)
	}
	sealed.Reason, sealed.InputDigest, sealed.Sealed = "", store.Digest{}, true
	b, err := s.seal(statePlace(&sealed), append(st.InputDigest[:], st.Reason...))
	sealed.Reason = string(b)
	return sealed, err
}

func (s *sealer) openState(st *store.RunState) error {
	if !st.Sealed {
		return nil
	}
	bare := *st
	bare.Reason = ""
	b, err := s.open(statePlace(&bare), []byte(st.Reason))
	if err == nil && len(b) < len(st.InputDigest) {
		err = fmt.Errorf("%w: %d bytes are sealed, at least %d expected", store.ErrCorrupt, len(b), len(st.InputDigest))
	}
	var memo []byte
	if err == nil && st.Memo != "" {
		memo, err = s.open(memoPlace(st), []byte(st.Memo))
	}
	if err != nil {
		return fmt.Errorf("run %q: its state: %w", st.Run.ID, err)
	}
	st.Sealed, st.Memo = false, string(memo)
	st.Reason = string(b[copy(st.InputDigest[:], b):])
	return nil
}

func memoPlace(st *store.RunState) []byte {
	return append(location(atMemo, st.Run), st.Incarnation[:]...)
}

// stateBytes is more than most encoded states take.
const stateBytes = 384

func statePlace(bare *store.RunState) []byte {
	return store.AppendState(append(make([]byte, 0, stateBytes), atState), bare)
}

// sealSchedule returns the sealed form of a schedule. All fields except the data are the location: data from another
// schedule or revision does not decode.
func (s *sealer) sealSchedule(x *store.Schedule) (store.Schedule, error) {
	sealed := *x
	sealed.Data, sealed.Sealed = nil, true
	data, err := s.seal(schedulePlace(&sealed), x.Data)
	sealed.Data = data
	return sealed, err
}

func (s *sealer) openSchedule(x *store.Schedule) error {
	if !x.Sealed {
		return nil
	}
	bare := *x
	bare.Data = nil
	data, err := s.open(schedulePlace(&bare), x.Data)
	if err != nil {
		return fmt.Errorf("schedule %q: %w", x.Key.ID, err)
	}
	x.Data, x.Sealed = data, false
	return nil
}

func schedulePlace(bare *store.Schedule) []byte {
	return store.AppendSchedule(append(make([]byte, 0, locationBytes), atSchedule), bare)
}
