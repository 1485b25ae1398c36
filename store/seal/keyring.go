package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/wfhost/wfhost/store"
)

const (
	// KeyBytes is the length of a key.
	KeyBytes = 32
	// nonceBytes is the length of a nonce, which is random. The first half is used to derive a key. The other half is
	// the nonce for AES-256-GCM with that key.
	//
	// With only a random nonce of 96 bits, two of 2^32 payloads, five days at 10,000 payloads a second, share a nonce
	// with a probability of 2^-32, and then GCM protects neither. With a key for each derivedUses payloads, the same
	// probability takes 2^55 payloads.
	nonceBytes = 24
	halfNonce  = nonceBytes / 2
	// derivedUses is how many payloads share the first half of their nonces: deriving a key takes as long as encrypting
	// a small payload.
	derivedUses = 1024
)

// Keyring is a Codec that encrypts with AES-256-GCM: XAES-256-GCM of C2SP. The location is the additional data.
type Keyring struct {
	newest *aesKey
	keys   map[string]*aesKey

	encodes atomic.Pointer[derived] // nil at first
	decodes atomic.Pointer[derived] // used last
}

// derived is a key derived from an aesKey. It may be used concurrently.
type derived struct {
	of   *aesKey
	half [halfNonce]byte
	gcm  cipher.AEAD
	uses atomic.Int32 // for encoding
}

// aesKey holds one key and derives further keys from it.
type aesKey struct {
	id    string
	block cipher.Block
	k1    [aes.BlockSize]byte
}

// ParseKeyring reads keys as text, one a line: its id, white space, 32 bytes in base64. The last key encrypts; the
// earlier keys only decrypt. Empty lines and lines that begin with # are ignored. An id has from 1 to 32 letters,
// digits, dots, dashes and underscores. Errors name the line but never contain its text.
func ParseKeyring(text []byte) (*Keyring, error) {
	r := &Keyring{keys: map[string]*aesKey{}}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d of the keys has %d words, want an id and a key in base64", n, len(words))
		}
		secret, err := base64.StdEncoding.DecodeString(words[1])
		if err != nil {
			return nil, fmt.Errorf("line %d of the keys: the key is not base64", n)
		}
		if err := r.add(words[0], secret); err != nil {
			return nil, fmt.Errorf("line %d of the keys: %w", n, err)
		}
	}
	if r.newest == nil {
		return nil, errors.New("there is no key: want a line with an id and 32 bytes in base64, as `wfhost keys new` prints")
	}
	return r, nil
}

// NewKeyLine returns a line of ParseKeyring with a new random key.
func NewKeyLine(id string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	secret := make([]byte, KeyBytes)
	fill(secret)
	return id + " " + base64.StdEncoding.EncodeToString(secret), nil
}

// fill fills b with random bytes. crypto/rand.Read never fails since Go 1.24.
func fill(b []byte) {
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
}

func checkID(id string) error {
	if len(id) == 0 || len(id) > store.MaxSealKeyID {
		return fmt.Errorf("the id of a key must have from 1 to %d characters, got %d", store.MaxSealKeyID, len(id))
	}
	for _, c := range []byte(id) {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return fmt.Errorf("the id of a key must have letters, digits, dots, dashes and underscores, got %q", id)
		}
	}
	return nil
}

func (r *Keyring) add(id string, secret []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	if len(secret) != KeyBytes {
		return fmt.Errorf("the key %q must have %d bytes, got %d", id, KeyBytes, len(secret))
	}
	if r.keys[id] != nil {
		return fmt.Errorf("the key %q is there twice", id)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return err
	}
	k := &aesKey{id: id, block: block}
	block.Encrypt(k.k1[:], k.k1[:])
	var carry byte // doubling in GF(2^128), as in CMAC
	for i := len(k.k1) - 1; i >= 0; i-- {
		carry, k.k1[i] = k.k1[i]>>7, k.k1[i]<<1|carry
	}
	k.k1[len(k.k1)-1] ^= byte(subtle.ConstantTimeSelect(int(carry), 0x87, 0))
	r.keys[id], r.newest = k, k
	return nil
}

// derive derives the key of the first half of a nonce.
func (k *aesKey) derive(half []byte) (*derived, error) {
	var key [KeyBytes]byte
	for i := range byte(2) {
		part := key[i*aes.BlockSize:][:aes.BlockSize]
		part[1], part[2] = i+1, 'X'
		copy(part[aes.BlockSize-halfNonce:], half)
		subtle.XORBytes(part, part, k.k1[:])
		k.block.Encrypt(part, part)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	d := &derived{of: k, half: [halfNonce]byte(half)}
	d.gcm, err = cipher.NewGCM(block)
	return d, err
}

// encoder returns a derived key with fewer than derivedUses uses.
func (r *Keyring) encoder() (*derived, error) {
	if d := r.encodes.Load(); d != nil && d.uses.Add(1) <= derivedUses {
		return d, nil
	}
	var half [halfNonce]byte
	fill(half[:])
	d, err := r.newest.derive(half[:])
	if err != nil {
		return nil, err
	}
	d.uses.Store(1)
	r.encodes.Store(d) // concurrent callers may each derive a key
	return d, nil
}

// Key returns the id of the newest key.
func (r *Keyring) Key() string { return r.newest.id }

// Encode encrypts a payload. The result is the nonce, 24 bytes, and the output of AES-256-GCM.
func (r *Keyring) Encode(dst, location, payload []byte) ([]byte, error) {
	d, err := r.encoder()
	if err != nil {
		return nil, err
	}
	dst = append(slices.Grow(dst, nonceBytes+len(payload)+aes.BlockSize), d.half[:]...)
	rest := dst[len(dst) : len(dst)+halfNonce]
	fill(rest)
	return d.gcm.Seal(dst[:len(dst)+halfNonce], rest, payload, location), nil
}

// Decode decrypts. It returns store.ErrKey if it has no key with the id, and store.ErrCorrupt if the bytes were not
// encrypted with that key for this location.
func (r *Keyring) Decode(key string, location, encoded []byte) ([]byte, error) {
	k := r.keys[key]
	if k == nil {
		return nil, fmt.Errorf("%w: it needs the key %q, which was not given", store.ErrKey, key)
	}
	if len(encoded) < nonceBytes {
		return nil, fmt.Errorf("%w: %d bytes are encrypted, at least %d expected", store.ErrCorrupt, len(encoded), nonceBytes)
	}
	d := r.decodes.Load()
	if d == nil || d.of != k || string(d.half[:]) != string(encoded[:halfNonce]) {
		var err error
		d, err = k.derive(encoded[:halfNonce])
		if err != nil {
			return nil, err
		}
		r.decodes.Store(d)
	}
	payload, err := d.gcm.Open(nil, encoded[halfNonce:nonceBytes], encoded[nonceBytes:], location)
	if err != nil {
		return nil, fmt.Errorf("%w: it was changed, or belongs to another location, or was encrypted with another key of that id",
			store.ErrCorrupt)
	}
	return payload, nil
}
