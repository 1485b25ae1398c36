package journal

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Keys are the idempotency keys that an iteration takes over from the one before. A run may have 10,000 of them, so their JSON
// is one base64 string. Each key is packed as: the 1-based number of its name among the names so far, or 0 followed by a new
// name; the key; 16 bytes of digest; the iteration. Numbers are uvarints. Names and keys start with their length. Earlier
// releases wrote an array of objects.
type Keys []Key

// MaxKeyBytes limits the size of the keys that the next iteration takes over, with the names of their signals. Entry 0 holds
// them. 10,000 keys of 36 characters fit.
const MaxKeyBytes = 1 << 20

// keyBytes is the approximate size of a key without its text and its name.
const keyBytes = 24

// Newest returns the newest keys that fit into MaxKeyBytes.
func (k Keys) Newest() Keys {
	room := MaxKeyBytes
	for i := len(k) - 1; i >= 0; i-- {
		room -= keyBytes + len(k[i].Name) + len(k[i].Key)
		if room < 0 {
			return k[i+1:]
		}
	}
	return k
}

// MarshalJSON packs the keys into a base64 string. Keys with a malformed digest are written as an array of objects.
func (k Keys) MarshalJSON() ([]byte, error) {
	var b []byte
	names := map[string]uint64{}
	for _, x := range k {
		digest, err := hex.DecodeString(x.Digest)
		if err != nil || len(digest) != digestBytes {
			return json.Marshal([]Key(k))
		}
		n := names[x.Name]
		b = binary.AppendUvarint(b, n)
		if n == 0 {
			names[x.Name] = uint64(len(names) + 1)
			b = appendText(b, x.Name)
		}
		b = append(appendText(b, x.Key), digest...)
		b = binary.AppendUvarint(b, uint64(x.Iteration))
	}
	return json.Marshal(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// UnmarshalJSON reads the packed form and the array of objects.
func (k *Keys) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] != '"' {
		return json.Unmarshal(text, (*[]Key)(k))
	}
	u := unpacker{}
	if err := json.Unmarshal(text, &u.left); err != nil {
		return err
	}
	var names []string
	for *k = nil; len(u.left) > 0 && !u.bad; {
		n := u.number()
		if n == 0 {
			names = append(names, string(u.bytes(u.number())))
			n = uint64(len(names))
		}
		if n > uint64(len(names)) {
			u.bad = true
			break
		}
		x := Key{Name: names[n-1], Key: string(u.bytes(u.number()))}
		x.Digest = hex.EncodeToString(u.bytes(digestBytes))
		x.Iteration = uint32(u.number()) //nolint:gosec // it was one
		*k = append(*k, x)
	}
	if u.bad {
		return fmt.Errorf("%d keys, and then something else", len(*k))
	}
	return nil
}

// unpacker reads packed keys. bad is set at the first malformed value.
type unpacker struct {
	left []byte
	bad  bool
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.left)
	if size <= 0 {
		u.bad = true
		return 0
	}
	u.left = u.left[size:]
	return n
}

func (u *unpacker) bytes(n uint64) (b []byte) {
	if u.bad || n > uint64(len(u.left)) {
		u.bad = true
		return nil
	}
	b, u.left = u.left[:n], u.left[n:]
	return b
}
