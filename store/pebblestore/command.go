package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// inboxKey returns the key of a command in a partition's inbox. Seq 0 gives a key before all commands.
func inboxKey(p store.PartitionID, seq store.CommandSeq) []byte {
	return binary.BigEndian.AppendUint64(store.AppendPrefix(nil, 0, p, store.TableInbox), uint64(seq))
}

// inboxCounter returns the key of the newest command seq of a partition. It is outside of the inbox, so that an emptied
// inbox does not reuse numbers.
func inboxCounter(p store.PartitionID) []byte {
	return append(store.AppendPrefix(nil, 0, p, store.TableEpoch), 'i')
}

// addCommand puts a command into the inbox of its receiver. The inbox lock is held.
func (s *Store) addCommand(b *pebble.Batch, cmd store.Command) error {
	p := cmd.To.Partition()
	if s.inboxSeq[p] == 0 {
		newest, err := s.newestCommand(p)
		if err != nil {
			return err
		}
		s.inboxSeq[p] = newest
	}
	cmd.Seq = s.inboxSeq[p] + 1
	record := store.AppendCommand(nil, &cmd)
	if err := store.CheckRecord("command", record); err != nil {
		return err
	}
	s.inboxSeq[p] = cmd.Seq
	_ = b.Set(inboxCounter(p), binary.BigEndian.AppendUint64(nil, uint64(cmd.Seq)), nil)
	return b.Set(inboxKey(p, cmd.Seq), record, nil)
}

// inboxMark is a lower bound of an inbox: no command below it is left. A scan from the mark skips the tombstones of
// consumed commands. Numbers only rise, so the mark never has to be lowered.
//
// Like the mark of the wake index, it is stored without an fsync: its record is in the log after the commits that made
// it true.
type inboxMark struct {
	mu     sync.Mutex
	at     store.CommandSeq
	stored store.CommandSeq // as last read from or written to the database
	read   bool
}

// inboxMarkEvery is how far a mark advances before it is stored again.
const inboxMarkEvery = 1000

// inboxMarkKey returns the key of the mark of a partition's inbox, u64be.
func inboxMarkKey(p store.PartitionID) []byte {
	return append(store.AppendPrefix(nil, 0, p, store.TableEpoch), 'f')
}

// firstCommand returns the mark of an inbox.
func (s *Store) firstCommand(p store.PartitionID) (store.CommandSeq, error) {
	m := &s.inboxes[p]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.read {
		v, err := s.get(inboxMarkKey(p))
		if err != nil {
			return 0, err
		}
		if v != nil && len(v) != 8 {
			return 0, fmt.Errorf("%w: inbox mark of partition %d", store.ErrCorrupt, p)
		}
		m.at = 1 // the first number
		if v != nil {
			m.at = store.CommandSeq(binary.BigEndian.Uint64(v))
		}
		m.stored, m.read = m.at, true
	}
	return m.at, nil
}

// raiseInbox moves the mark of an inbox up to a number below which no command is left.
func (s *Store) raiseInbox(p store.PartitionID, to store.CommandSeq) error {
	m := &s.inboxes[p]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = max(m.at, to)
	if m.at < m.stored+inboxMarkEvery {
		return nil
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Set(inboxMarkKey(p), binary.BigEndian.AppendUint64(nil, uint64(m.at)), nil)
	m.stored = m.at
	return s.apply(b)
}

// Commands lists the inbox.
func (p *partition) Commands(_ context.Context, after store.CommandSeq, limit int) (cmds []store.Command, err error) {
	end, err := p.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	mark, err := p.s.firstCommand(p.id)
	if err != nil {
		return nil, err
	}
	// The newest number is read before the commands: if no command is found, this one and all below it are gone.
	newest, err := p.s.newestCommand(p.id)
	if err != nil {
		return nil, err
	}
	first := newest + 1
	upper := store.PrefixEnd(store.AppendPrefix(nil, 0, p.id, store.TableInbox))
	err = p.s.scan(inboxKey(p.id, max(after+1, mark)), upper, func(k, v []byte) (bool, error) {
		if len(cmds) == 0 {
			first = min(first, store.CommandSeq(binary.BigEndian.Uint64(k[len(k)-8:])))
		}
		if len(cmds) >= limit {
			return false, nil
		}
		cmd, err := store.DecodeCommand(v)
		if err != nil {
			cmd = store.Command{Seq: store.CommandSeq(binary.BigEndian.Uint64(k[len(k)-8:]))}
		}
		cmds = append(cmds, cmd)
		return true, nil
	})
	if err != nil {
		return cmds, err
	}
	if after < mark && first > mark {
		select {
		case <-p.s.failed: // reads continue
		default:
			return cmds, p.s.raiseInbox(p.id, first)
		}
	}
	return cmds, nil
}

// newestCommand reads the newest number that an inbox has assigned, 0 if there is none.
func (s *Store) newestCommand(p store.PartitionID) (store.CommandSeq, error) {
	v, err := s.get(inboxCounter(p))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: newest command of partition %d", store.ErrCorrupt, p)
	}
	return store.CommandSeq(binary.BigEndian.Uint64(v)), nil
}

// Discard removes commands from the inbox, and sends the answers.
func (p *partition) Discard(_ context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	end, err := p.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	if err := p.lockOwner(); err != nil {
		return err
	}
	b := p.s.db.NewBatch()
	defer p.s.drop(b)
	for _, seq := range seqs {
		_ = b.Delete(inboxKey(p.id, seq), nil)
	}
	if len(answers) == 0 {
		return p.s.sync(b, p.unlockOwner)
	}
	p.s.inbox.Lock()
	free := func() {
		p.s.inbox.Unlock()
		p.unlockOwner()
	}
	for _, cmd := range answers {
		if err := p.s.addCommand(b, cmd); err != nil {
			free()
			return err
		}
	}
	return p.s.sync(b, free)
}
