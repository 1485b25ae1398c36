package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/seal"
)

// Codec encodes what callers and workflows supply before it is stored, and decodes it again: journals with all
// inputs, results, errors and signals, large payloads, log lines, output, commands between runs, and reasons of
// statuses. It is meant for encryption, with a [Keyring] or with keys of your own. docs/operate/encryption.md lists what
// stays in the clear. Codec is an interface:
//
//	// Key returns the id of the key with which Encode encodes. It is stored in the clear with each record.
//	Key() string
//	// Encode appends the encoded payload to dst and returns the result. location says where it will be stored; a codec that
//	// authenticates makes it part of what it authenticates. It must not change or keep location and payload.
//	Encode(dst, location, payload []byte) ([]byte, error)
//	// Decode returns exactly the bytes that Encode was given for this location and key. store.ErrCorrupt says that they are
//	// damaged, and the run becomes stuck; after any other error the record is read again later.
//	Decode(key string, location, encoded []byte) ([]byte, error)
type Codec = seal.Codec

// Keyring is a Codec that encrypts with AES-256-GCM (XAES-256-GCM) under the newest of its keys. Several hosts may
// share it.
type Keyring = seal.Keyring

// ParseKeyring reads keys from text, one per line: an id, white space, 32 bytes in base64. The last key encrypts. The
// other keys decrypt older records. Empty lines, and lines that begin with #, are skipped. Ids have from 1 to 32
// letters, digits, dots, dashes and underscores. Errors quote nothing of the text but ids.
func ParseKeyring(text []byte) (*Keyring, error) {
	r, err := seal.ParseKeyring(text)
	if err != nil {
		return nil, &joined{err, ErrInvalid}
	}
	return r, nil
}

// NewKeyLine returns a line for ParseKeyring with a new random key.
func NewKeyLine(id string) (string, error) {
	line, err := seal.NewKeyLine(id)
	if err != nil {
		return "", &joined{err, ErrInvalid}
	}
	return line, nil
}

// sealStore wraps the store with the codec. Without a codec it refuses a store that needs one.
func (h *Host) sealStore(ctx context.Context) error {
	h.below = h.store
	if h.cfg.Codec == nil {
		return seal.InTheClear(ctx, h.below)
	}
	s, err := seal.New(ctx, h.below, h.cfg.Codec, seal.Options{NowMs: func() int64 { return h.cfg.Clock.Now().UnixMilli() }})
	if err == nil {
		h.store = s
	}
	return err
}

// KeyUse is how many records a key encrypts:
//
//	Key           string // its id; empty for records in the clear
//	Records       int64
//	CreatedUnixMs int64  // when the key was first used; 0 if that is not known
type KeyUse = pebblestore.KeyUse

// KeysInUse counts the records that each key encrypts in a data directory that no host has open, in a backup, or in
// the newest backup of a place. It needs no key. The first item has no id and counts the records in the clear. A
// key that is registered but encrypts no record has a count of 0. It reads all of the data, and changes nothing.
func KeysInUse(ctx context.Context, path string) (list []KeyUse, err error) {
	at, err := locate(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	list, err = pebblestore.CountKeys(ctx, at.dir)
	return list, translate(err)
}

// ForgetKey removes an unused key from a data directory that no host has open, so that a host opens the directory
// without that key; durable on return. ErrConflict if the key encrypts records; ErrNotFound if the key is not known,
// or if the directory holds no data.
func ForgetKey(ctx context.Context, dir, id string) error {
	path := filepath.Join(dir, storeName)
	if _, err := os.Stat(path); err != nil {
		return noData(dir)
	}
	used, err := pebblestore.ForgetKey(ctx, path, id)
	if err != nil {
		return translate(err)
	}
	if used > 0 {
		return &joined{fmt.Errorf("the key %q encrypts %d records: it is needed until they are deleted", id, used), ErrConflict}
	}
	return nil
}

// checkSealed decodes a run: its state, the journals of all iterations, its log and its output. It adds decode
// failures to a report, and reports whether the run can be replayed.
func (h *Host) checkSealed(ctx context.Context, run store.RunKey, report *VerifyReport) (sound bool, err error) {
	bad := func(kind string, err error) bool {
		if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrVersion) {
			return false
		}
		report.Add(VerifyProblem{Kind: kind, Partition: int(run.Partition()), Namespace: run.Namespace, Run: run.ID, Text: err.Error()})
		return true
	}
	st, err := h.store.State(ctx, run)
	if err != nil {
		if bad("state", err) {
			err = nil
		}
		return false, err
	}
	sound = true
	for i := st.Kept; i <= st.Iteration; i++ {
		for _, err := range h.store.Load(ctx, run, i, 0) {
			if err == nil {
				continue
			}
			if !bad("journal", err) {
				return false, err
			}
			sound = sound && i != st.Iteration
		}
	}
	for _, x := range []struct {
		kind string
		n    uint64
		read func(from uint64) (int, error)
	}{{"log", st.LogRecords, func(from uint64) (int, error) {
		lines, err := h.store.Logs(ctx, run, from, store.MaxPage)
		return len(lines), err
	}}, {"output", st.Output, func(from uint64) (int, error) {
		chunks, err := h.store.Output(ctx, run, from, store.MaxPage)
		return len(chunks), err
	}}} {
		for at := uint64(0); at < x.n; {
			n, err := x.read(at)
			if err != nil && !bad(x.kind, err) {
				return false, err
			}
			switch {
			case err != nil:
				at += sealedSkip
			case n == 0:
				at = x.n
			default:
				at += uint64(n)
			}
		}
	}
	return sound, nil
}

// sealedSkip is how many lines and chunks are skipped after one that does not decode: these are likely to fail, too,
// and a problem for each would make the report long.
const sealedSkip = 16
