package transfer

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// journals checks records in the order of Export: each decodes, and journals have no gaps.
type journals struct {
	run  store.RunState // the newest one
	in   bool           // records of run may follow
	at   uint32         // the iteration of the next entry, unless another one begins
	next uint64         // its seq
}

func (x *journals) check(r *Record) error {
	fits, err := true, error(nil)
	switch {
	case r.Kind == Run:
		if err := x.end(); err != nil {
			return err
		}
		*x = journals{in: true}
		x.run, err = store.DecodeState(r.Data)
		fits = x.run.Run == r.Run()
	case r.Kind == Entry, r.Kind == LogLine, r.Kind == Output:
		if !x.in || x.run.Run != r.Run() {
			return fmt.Errorf("%s: %w: it belongs to no run", r, store.ErrCorrupt)
		}
		if r.Kind == Entry && x.at != r.Iteration {
			x.at, x.next = r.Iteration, 0
		}
		if r.Kind == Entry && x.next != r.Seq {
			return fmt.Errorf("%s: %w: entry %d comes next", r, store.ErrCorrupt, x.next)
		}
		if r.Kind == Entry {
			x.next++
		}
		fits, err = r.decode()
	default:
		fits, err = r.decode()
	}
	if err == nil && !fits {
		err = fmt.Errorf("%w: its record is that of another one", store.ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; `wfhost verify` says more about data in a folder", r, err)
	}
	return nil
}

// end checks the length of the newest run's journal.
func (x *journals) end() error {
	if !x.in || x.run.Deleted {
		return nil
	}
	var length uint64
	if x.at == x.run.Iteration {
		length = x.next
	}
	if length != uint64(x.run.Length) {
		return fmt.Errorf("run %q of namespace %d: %w: its journal has %d entries, its state says %d", x.run.Run.ID,
			x.run.Run.Namespace, store.ErrCorrupt, length, x.run.Length)
	}
	return nil
}

// decode reports whether Data decodes to the record of its place.
func (r *Record) decode() (fits bool, err error) {
	switch r.Kind {
	case Namespace:
		_, err = store.DecodeNamespace(r.Data)
	case SealKey:
		_, err = store.DecodeKey(r.Data)
	case Token:
		_, err = store.DecodeToken(r.Data)
	case Quota:
		_, err = store.DecodeQuota(r.Data)
	case Retention:
		_, err = store.DecodeRetention(r.Data)
	case Limits:
		_, err = store.DecodeLimits(r.Data)
	case Module:
		_, err = store.DecodeModuleInfo(r.Data)
		d := sha256.Sum256(r.Wasm)
		return string(d[:]) == string(r.Key), err
	case Version:
		_, err = store.DecodeVersion(r.Data)
	case Entry:
		var x store.Entry
		x, err = store.DecodeEntry(r.Data)
		return uint64(x.Seq) == r.Seq, err
	case LogLine:
		var x store.LogLine
		x, err = store.DecodeLogLine(r.Data)
		return x.Index == r.Seq, err
	case Output:
		var x store.Chunk
		x, err = store.DecodeChunk(r.Data)
		return x.Index == r.Seq, err
	case Command:
		_, err = store.DecodeCommand(r.Data)
		if errors.Is(err, store.ErrCorrupt) { // it stays in its inbox, and is skipped there
			err = nil
		}
	case Schedule:
		var x store.Schedule
		x, err = store.DecodeSchedule(r.Data)
		return x.Key == r.Run(), err
	case Hook:
		_, err = store.DecodeHolder(r.Data)
	}
	return true, err
}
