// Package seal keeps payloads from whoever reads the disk: its Store encodes what callers and workflows have supplied before it
// reaches another store, and decodes it when it is read. Whoever uses the Store sees no difference.
//
// Sealed are whole entries of journals, with the large payloads in them, whole lines of logs, chunks of output and commands, and
// of a run's state the reason, the memo and the digest of the input. What a store needs to find and order its records stays in
// the clear: ids and numbers, times, statuses, names of workflows and versions, attributes, hook tokens, modules. See FORMAT.md,
// Sealed.
//
// Each record is bound to its place. One that was put into another place, or changed, does not decode: store.ErrCorrupt. Records
// that were written before there was a codec are in the clear, and are read as they are.
package seal

import (
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// A Codec encodes payloads and decodes them. Its methods are called concurrently, from goroutines that hold up commits: they
// must be fast. Encode need not return the same bytes twice; what Decode returns must be the bytes that Encode was given.
type Codec interface {
	// Key returns the id of the key with which Encode encodes, from 1 to store.MaxKeyID bytes. It is asked for once, when a
	// Store is made, and is stored in the clear with each record.
	Key() string
	// Encode encodes a payload, appends it to dst and returns the result. place says where it will stand; a codec that
	// authenticates makes it part of what it authenticates. place and payload must not be changed or kept.
	Encode(dst, place, payload []byte) ([]byte, error)
	// Decode decodes what Encode has returned for the same place when Key returned key. An error that is store.ErrCorrupt says
	// that the bytes are not what Encode has returned for that place: the run becomes stuck if it is in its journal. An error
	// that is not says that Decode failed this time: the record is read again later.
	Decode(key string, place, encoded []byte) ([]byte, error)
}

// sealer encodes records with one codec. What it makes is the length of the key's id, u8, the id, and what the codec made.
type sealer struct {
	codec Codec
	key   string
}

// overheadBytes is by how much a codec makes a payload longer, about: a Keyring by 40 bytes.
const overheadBytes = 48

func (s *sealer) seal(place, payload []byte) ([]byte, error) {
	head := make([]byte, 0, 1+len(s.key)+len(payload)+overheadBytes)
	b, err := s.codec.Encode(append(append(head, byte(len(s.key))), s.key...), place, payload)
	if err != nil {
		return nil, fmt.Errorf("encode with the key %q: %w", s.key, err)
	}
	return b, nil
}

func (s *sealer) open(place, sealed []byte) ([]byte, error) {
	key, b, err := store.SealedKey(sealed)
	if err != nil {
		return nil, err
	}
	payload, err := s.codec.Decode(key, place, b)
	if err != nil {
		return nil, fmt.Errorf("decode with the key %q: %w", key, err)
	}
	return payload, nil
}
