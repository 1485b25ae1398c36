package pebblestore

import (
	"encoding/binary"
	"fmt"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// setting adds a record of the whole store.
func (x *imports) setting(r *transfer.Record) error {
	var key []byte
	switch r.Kind {
	case transfer.Namespace:
		ns, err := store.DecodeNamespace(r.Data)
		if err != nil {
			return err
		}
		x.namespace = max(x.namespace, ns.ID)
		key = namespaceKey(ns.Name)
	case transfer.SealKey:
		k, err := store.DecodeKey(r.Data)
		if err != nil {
			return err
		}
		key = store.GlobalKey(0, store.TableKey, []byte(k.ID))
	case transfer.Token:
		t, err := store.DecodeToken(r.Data)
		if err != nil {
			return err
		}
		key = tokenKey(t.Hash[:])
	case transfer.Quota:
		q, err := store.DecodeQuota(r.Data)
		if err != nil {
			return err
		}
		key = store.QuotaKey(q.Namespace)
	case transfer.Retention:
		t, err := store.DecodeRetention(r.Data)
		if err != nil {
			return err
		}
		key = store.RetentionKey(t.Namespace, t.Workflow)
	case transfer.Limits:
		l, err := store.DecodeLimits(r.Data)
		if err != nil {
			return err
		}
		key = store.LimitsKey(l.Namespace, l.Workflow)
	case transfer.Module:
		_ = x.b.Set(store.GlobalKey(0, store.TableWasm, r.Key), r.Wasm, nil)
		key = store.GlobalKey(0, store.TableModule, r.Key)
	case transfer.Version:
		v, err := store.DecodeVersion(r.Data)
		if err != nil {
			return err
		}
		key = store.VersionKey(v.Namespace, v.Workflow, v.Number)
	default:
		return fmt.Errorf("%w: records of kind %d", store.ErrVersion, r.Kind)
	}
	return x.b.Set(key, r.Data, nil)
}

// owned adds a record of a partition that is not of a run.
func (x *imports) owned(r *transfer.Record) error {
	switch r.Kind {
	case transfer.Partition:
		if r.Epoch > 0 {
			_ = x.b.Set(epochKey(r.Partition), binary.BigEndian.AppendUint64(nil, uint64(r.Epoch)), nil)
		}
		if r.Seq > 0 {
			_ = x.b.Set(inboxCounter(r.Partition), binary.BigEndian.AppendUint64(nil, r.Seq), nil)
		}
		return nil
	case transfer.Command:
		data := r.Data
		if cmd, err := store.DecodeCommand(data); err == nil {
			cmd.Seq = store.CommandSeq(r.Seq)
			data = store.AppendCommand(nil, &cmd)
		}
		return x.b.Set(inboxKey(r.Partition, store.CommandSeq(r.Seq)), data, nil)
	case transfer.Schedule:
		s, err := store.DecodeSchedule(r.Data)
		if err != nil {
			return err
		}
		setWake(x.b, s.Key.Partition(), &store.WakeSet{Kind: store.WakeSchedule, Key: s.Key, OldUnixMs: store.NoWake,
			UnixMs: s.WakeUnixMs})
		return x.b.Set(store.RunTableKey(s.Key, store.TableSchedule), r.Data, nil)
	case transfer.Wake:
		return x.b.Set(store.WakeIndexKey(r.Partition, r.Wake.Key), binary.BigEndian.AppendUint64(nil, uint64(r.Wake.DueUnixMs)), nil)
	case transfer.Hook:
		return x.b.Set(hookKey(r.Namespace, r.ID), r.Data, nil)
	}
	return x.b.Set(store.QueueKey(r.Run(), r.Key), r.Data, nil)
}
