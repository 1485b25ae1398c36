// Package seal hides payloads from readers of the disk. Its Store encodes the data of callers and workflows before it
// reaches another store, and decodes it when it is read. Users of the Store see no difference.
//
// It seals whole journal entries with their large payloads, whole log lines, chunks of output and commands, the data of
// schedules, and of a run's state the reason, the memo and the digest of the input. What a store needs to find and
// order its records stays in the clear: ids and numbers, times, statuses, names of workflows and versions, attributes,
// hook tokens, modules. See FORMAT.md, Sealed.
//
// Each record is bound to its location. A record that was moved or changed does not decode: store.ErrCorrupt. Records from
// before there was a codec are in the clear, and are read as they are.
package seal

import (
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// A Codec encodes payloads and decodes them. Its methods are called concurrently, and commits wait for them, so they
// must be fast. Encode need not be deterministic. Decode must return the bytes that Encode was given.
type Codec interface {
	// Key returns the id of the key with which Encode encodes, from 1 to store.MaxSealKeyID bytes. It is called once, when
	// a Store is made. The id is stored in the clear with each record.
	Key() string
	// Encode encodes a payload, appends it to dst and returns the result. location is where it will be stored; an
	// authenticating codec must authenticate it too. location and payload must not be changed or kept.
	Encode(dst, location, payload []byte) ([]byte, error)
	// Decode decodes bytes that Encode returned for the same location when Key returned key. store.ErrCorrupt means that
	// Encode has not returned these bytes for that location: if they are in a run's journal, the run becomes stuck. Any
	// other error means that Decode failed this time: the record is read again later.
	Decode(key string, location, encoded []byte) ([]byte, error)
}

// sealer encodes records with one codec. A sealed record is the length of the key's id, u8, the id, and the output of
// the codec.
type sealer struct {
	codec Codec
	key   string
}

// overheadBytes is the approximate overhead of a codec per payload. A Keyring adds 40 bytes.
const overheadBytes = 48

func (s *sealer) seal(location, payload []byte) ([]byte, error) {
	head := make([]byte, 0, 1+len(s.key)+len(payload)+overheadBytes)
	b, err := s.codec.Encode(append(append(head, byte(len(s.key))), s.key...), location, payload)
	if err != nil {
		return nil, fmt.Errorf("encode with the key %q: %w", s.key, err)
	}
	return b, nil
}

func (s *sealer) open(location, sealed []byte) ([]byte, error) {
	key, b, err := store.SealedKey(sealed)
	if err != nil {
		return nil, err
	}
	payload, err := s.codec.Decode(key, location, b)
	if err != nil {
		return nil, fmt.Errorf("decode with the key %q: %w", key, err)
	}
	return payload, nil
}
