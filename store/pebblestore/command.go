package pebblestore

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// inboxKey gives the key of a command in a partition's inbox; Seq 0 gives the inbox's first possible key.
func inboxKey(p store.PartitionID, seq store.CommandSeq) []byte {
	return binary.BigEndian.AppendUint64(store.AppendPrefix(nil, 0, p, store.TableInbox), uint64(seq))
}

// inboxCounter is the key of the newest command seq of a partition; it stands outside of the inbox, so that an
// emptied inbox does not give numbers a second time.
func inboxCounter(p store.PartitionID) []byte {
	return append(store.AppendPrefix(nil, 0, p, store.TableEpoch), 'i')
}

// Submit puts a command into an inbox, once.
func (s *Store) Submit(_ context.Context, p store.PartitionID, cmd store.Command) error {
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	s.inbox.Lock()
	if err := s.addCommand(b, p, cmd); err != nil {
		s.inbox.Unlock()
		return err
	}
	return s.sync(b, s.inbox.Unlock)
}

// addCommand puts a command into an inbox, unless it was there before. The inbox lock is held.
func (s *Store) addCommand(b *pebble.Batch, p store.PartitionID, cmd store.Command) error {
	seen := append(store.AppendPrefix(nil, 0, p, store.TableSeen), cmd.ID.Incarnation[:]...)
	seen = binary.BigEndian.AppendUint32(seen, cmd.ID.Iteration)
	seen = binary.BigEndian.AppendUint64(seen, uint64(cmd.ID.Seq))
	if v, err := s.get(seen); err != nil || v != nil {
		return err
	}
	if s.inboxSeq[p] == 0 {
		v, err := s.get(inboxCounter(p))
		if err != nil {
			return err
		}
		if len(v) == 8 {
			s.inboxSeq[p] = store.CommandSeq(binary.BigEndian.Uint64(v))
		}
	}
	cmd.Seq = s.inboxSeq[p] + 1
	record := store.AppendCommand(nil, &cmd)
	if err := store.CheckRecord("command", record); err != nil {
		return err
	}
	s.inboxSeq[p] = cmd.Seq
	_ = b.Set(seen, []byte{1}, nil)
	_ = b.Set(inboxCounter(p), binary.BigEndian.AppendUint64(nil, uint64(cmd.Seq)), nil)
	return b.Set(inboxKey(p, cmd.Seq), record, nil)
}

// Commands lists the inbox.
func (p *partition) Commands(_ context.Context, after store.CommandSeq, limit int) (cmds []store.Command, err error) {
	end, err := p.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	upper := store.PrefixEnd(store.AppendPrefix(nil, 0, p.id, store.TableInbox))
	err = p.s.scan(inboxKey(p.id, after+1), upper, func(_, v []byte) (bool, error) {
		if len(cmds) >= limit {
			return false, nil
		}
		cmd, err := store.DecodeCommand(v)
		cmds = append(cmds, cmd)
		return true, err
	})
	return cmds, err
}

// Discard takes commands out of the inbox.
func (p *partition) Discard(_ context.Context, seqs []store.CommandSeq) error {
	end, err := p.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	if err := p.hold(); err != nil {
		return err
	}
	b := p.s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	for _, seq := range seqs {
		_ = b.Delete(inboxKey(p.id, seq), nil)
	}
	return p.s.sync(b, p.release)
}
