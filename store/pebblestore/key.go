package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// SealKeys returns the keys with which payloads were encoded.
func (s *Store) SealKeys(context.Context) ([]store.SealKey, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	s.settings.RLock()
	defer s.settings.RUnlock()
	return s.keys()
}

func (s *Store) keys() (list []store.SealKey, err error) {
	prefix := store.GlobalKey(0, store.TableKey, nil)
	err = s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		k, err := store.DecodeKey(v)
		list = append(list, k)
		return true, err
	})
	return list, err
}

// AddSealKey stores a key.
func (s *Store) AddSealKey(_ context.Context, k store.SealKey) error {
	if err := store.CheckSealKey(&k); err != nil {
		return err
	}
	end, err := s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	s.settings.Lock()
	defer s.settings.Unlock()
	key := store.GlobalKey(0, store.TableKey, []byte(k.ID))
	old, err := s.get(key)
	if err != nil || old != nil {
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Set(key, store.AppendKey(nil, &k), nil)
	return s.sync(b, nil)
}

// KeyUse says how many records a key encrypts.
type KeyUse struct {
	Key           string `json:"key"`             // its id; empty: records in the clear
	Records       int64  `json:"records"`         // states, entries of journals, log lines, chunks of output, commands and schedules
	CreatedUnixMs int64  `json:"created_unix_ms"` // 0 if unknown
}

// CountKeys counts the records that each key encrypts in a closed store, records in the clear first. It changes
// nothing.
func CountKeys(ctx context.Context, dir string) (list []KeyUse, err error) {
	s, err := open(dir, Options{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.countKeys(ctx)
}

// ForgetKey removes a key from a closed store, durable on return. If the key encrypts records, it stays, and ForgetKey
// returns how many.
func ForgetKey(ctx context.Context, dir, id string) (used int64, err error) {
	s, err := open(dir, Options{ReadOnly: true}) // read-only, so that a missing store is not created
	if err != nil {
		return 0, fmt.Errorf("open store %s: %w", dir, err)
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	s, err = Open(dir, Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := s.countKeys(ctx)
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(list, func(u KeyUse) bool { return u.Key == id && id != "" })
	if at < 0 {
		return 0, fmt.Errorf("key %q: %w", id, store.ErrNotFound)
	}
	if list[at].Records > 0 {
		return list[at].Records, nil
	}
	end, err := s.beginWrite()
	if err != nil {
		return 0, err
	}
	defer end()
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Delete(store.GlobalKey(0, store.TableKey, []byte(id)), nil)
	return 0, s.sync(b, nil)
}

// countKeys walks over all records that may be sealed.
func (s *Store) countKeys(ctx context.Context) ([]KeyUse, error) {
	known, err := s.keys()
	if err != nil {
		return nil, err
	}
	k := &keyCount{s: s, counts: map[string]int64{"": 0}}
	list := []KeyUse{{}}
	for i := range known {
		k.counts[known[i].ID] = 0
	}
	namespaces := []store.NamespaceID{0}
	for ns, err := range s.Namespaces(ctx) {
		if err != nil {
			return nil, err
		}
		if ns.ID != 0 {
			namespaces = append(namespaces, ns.ID)
		}
	}
	for p := range store.PartitionID(store.Partitions) {
		for _, ns := range namespaces {
			for _, table := range []byte{store.TableState, store.TableJournal, store.TableLog, store.TableOutput, store.TableInbox,
				store.TableSchedule} {
				if err := k.table(ctx, ns, p, table); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(k.counts)) {
		u := KeyUse{Key: id, Records: k.counts[id]}
		if at := slices.IndexFunc(known, func(x store.SealKey) bool { return x.ID == id }); at >= 0 {
			u.CreatedUnixMs = known[at].CreatedUnixMs
		}
		if id == "" {
			list[0] = u
		} else {
			list = append(list, u)
		}
	}
	return list, nil
}

// keyCount counts records by the ids of their keys.
type keyCount struct {
	s      *Store
	counts map[string]int64
}

func (k *keyCount) table(ctx context.Context, ns store.NamespaceID, p store.PartitionID, table byte) error {
	prefix, n := store.AppendPrefix(nil, ns, p, table), 0
	return k.s.scan(prefix, store.PrefixEnd(prefix), func(key, v []byte) (bool, error) {
		n++
		if n%1024 == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err := k.record(table, v); err != nil {
			return false, fmt.Errorf("table %q, key %q: %w; see wfhost verify", table, key[len(prefix):], err)
		}
		return true, nil
	})
}

// record counts a record, or the entries of a chunk.
func (k *keyCount) record(table byte, v []byte) error {
	switch table {
	case store.TableState:
		st, err := decodeStored(v)
		if err != nil {
			return err
		}
		return k.count(st.state.Sealed, []byte(st.state.Reason))
	case store.TableLog:
		l, err := store.DecodeLogLine(v)
		if err != nil {
			return err
		}
		return k.count(l.Sealed, []byte(l.Text))
	case store.TableOutput:
		c, err := store.DecodeChunk(v)
		if err != nil {
			return err
		}
		return k.count(c.Sealed, c.Data)
	case store.TableSchedule:
		x, err := store.DecodeSchedule(v)
		if err != nil {
			return err
		}
		return k.count(x.Sealed, x.Data)
	case store.TableInbox:
		c, err := store.DecodeCommand(v)
		if err != nil {
			return err
		}
		return k.count(c.Sealed, c.Data)
	}
	for len(v) > 0 {
		e, flags, rest, err := takeItem(v)
		if err == nil && e.Sealed {
			err = k.s.fill(&e, flags)
		}
		if err == nil {
			err = k.count(e.Sealed, e.Data)
		}
		if err != nil {
			return err
		}
		v = rest
	}
	return nil
}

func (k *keyCount) count(sealed bool, record []byte) error {
	if !sealed {
		k.counts[""]++
		return nil
	}
	id, _, err := store.SealedKey(record)
	k.counts[id]++
	return err
}
