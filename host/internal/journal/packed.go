package journal

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Keys are idempotency keys that an iteration takes over. In JSON they are one text in base64, since a run may have ten
// thousand: of each key the number of its name among the names so far (0: a new one, which follows), the key, the 16 bytes of
// its digest, and the iteration; numbers are uvarints, and names and keys begin with their lengths. Earlier releases wrote an
// array of objects.
type Keys []Key

// MaxKeyBytes bounds the keys that go over to the next iteration, with the names of their signals: entry 0 has them. Ten thousand
// keys of 36 characters fit.
const MaxKeyBytes = 1 << 20

// keyBytes is about what a key takes beside its text and its name.
const keyBytes = 24

// Newest returns the newest of the keys that take at most MaxKeyBytes.
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

// MarshalJSON packs the keys.
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

// UnmarshalJSON reads what MarshalJSON writes, and the array of earlier releases.
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

// unpacker reads packed keys.
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
