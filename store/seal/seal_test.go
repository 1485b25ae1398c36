package seal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/seal"
	"github.com/wfhost/wfhost/store/storetest"
)

var ctx = context.Background()

// line is a line with a key whose bytes are all equal.
func line(id string, b byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, seal.KeyBytes)) + "\n"
}

func keyring(t testing.TB, lines ...string) *seal.Keyring {
	t.Helper()
	r, err := seal.ParseKeyring([]byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sealed(t testing.TB, s store.Store, codec seal.Codec) *seal.Store {
	t.Helper()
	x, err := seal.New(ctx, s, codec, seal.Options{NowMs: func() int64 { return 7 }})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestStore runs the test suite of stores on sealed stores, also with a new key after each restart. It skips tests of
// sizes, because sealing makes a record of the maximum size larger; tests of keys, because sealed stores have keys of
// their own; and the test of many namespaces, which are not sealed.
func TestStore(t *testing.T) {
	without := []string{"sizes", "keys", "many namespaces"}
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Open {
			data := memstore.New()
			return func(t *testing.T) store.Store { return sealed(t, data.Open(), keyring(t, line("a", 1))) }
		}, without...)
	})
	t.Run("disk", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Open {
			fs, lines := vfs.NewMem(), []string{}
			return func(t *testing.T) store.Store {
				s, err := pebblestore.Open("db", pebblestore.Options{FS: fs})
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, line(fmt.Sprintf("own-%d", len(lines)), byte(len(lines))))
				return sealed(t, s, keyring(t, lines...))
			}
		}, without...)
	})
}

// TestXAES compares with the vectors of C2SP.
func TestXAES(t *testing.T) {
	for _, v := range []struct {
		key           byte
		location, hex string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		b, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatal(err)
		}
		encoded := append([]byte("ABCDEFGHIJKLMNOPQRSTUVWX"), b...)
		got, err := keyring(t, line("k", v.key)).Decode("k", []byte(v.location), encoded)
		if err != nil || string(got) != "XAES-256-GCM" {
			t.Errorf("key of %d: %q, %v", v.key, got, err)
		}
	}
}

// TestKeyring encrypts with the newest key, and decrypts with any key, but only at the same location.
func TestKeyring(t *testing.T) {
	old, both := keyring(t, line("a", 1)), keyring(t, "# keys\n\n", line("a", 1), line("b", 2))
	if both.Key() != "b" {
		t.Fatalf("the newest key is %q", both.Key())
	}
	b, err := old.Encode(nil, []byte("here"), []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Decode("a", []byte("here"), b); err != nil || string(got) != "text" {
		t.Fatalf("%q, %v", got, err)
	}
	again, err := old.Encode(nil, []byte("here"), []byte("text"))
	if err != nil || bytes.Equal(b, again) {
		t.Fatalf("the same payload is encrypted in the same way: %x, %v", again, err)
	}
	bad := bytes.Clone(b)
	bad[len(bad)-1] ^= 1
	for name, f := range map[string]func() ([]byte, error){
		"another location": func() ([]byte, error) { return old.Decode("a", []byte("there"), b) },
		"changed":          func() ([]byte, error) { return old.Decode("a", []byte("here"), bad) },
		"cut":              func() ([]byte, error) { return old.Decode("a", []byte("here"), b[:20]) },
		"another key":      func() ([]byte, error) { return keyring(t, line("a", 9)).Decode("a", []byte("here"), b) },
	} {
		if got, err := f(); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := old.Decode("b", nil, b); !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// TestNonces encrypts many payloads concurrently: no two have the same nonce, and at most 1,024 share its first half.
// They can be decrypted in any order.
func TestNonces(t *testing.T) {
	const workers, each = 4, 1500
	r := keyring(t, line("a", 1))
	made := make([][][]byte, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				b, err := r.Encode(nil, []byte{byte(w)}, []byte(fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
				}
				made[w] = append(made[w], b)
			}
		})
	}
	group.Wait()
	seen, halves := map[string]bool{}, map[string]int{}
	for i := range each {
		for w := range workers {
			b := made[w][i]
			if seen[string(b[:24])] {
				t.Fatalf("the nonce %x occurs twice", b[:24])
			}
			seen[string(b[:24])] = true
			halves[string(b[:12])]++
			if got, err := r.Decode("a", []byte{byte(w)}, b); err != nil || string(got) != fmt.Sprint(i) {
				t.Fatalf("payload %d of %d: %q, %v", i, w, got, err)
			}
		}
	}
	for half, n := range halves {
		if n > 1024 {
			t.Errorf("%d nonces begin with %x", n, half)
		}
	}
	if len(halves) < workers*each/1024 || len(halves) > 2*workers*each/1024+workers {
		t.Errorf("%d keys were derived for %d payloads", len(halves), workers*each)
	}
}

// TestParseKeyring refuses invalid lists of keys without revealing their content.
func TestParseKeyring(t *testing.T) {
	secret := strings.TrimPrefix(line("", 1), " ")
	for text, want := range map[string]string{
		"":                                     "there is no key",
		"# only\n":                             "there is no key",
		"a\n":                                  "line 1 of the keys has 1 words",
		"\na b c":                              "line 2 of the keys has 3 words",
		"a +=!":                                "the key is not base64",
		"a aGVsbG8=":                           `the key "a" must have 32 bytes, got 5`,
		"a/b " + secret:                        "letters, digits, dots, dashes and underscores",
		strings.Repeat("x", 33) + " " + secret: "from 1 to 32 characters, got 33",
		line("a", 1) + line("a", 2):            `the key "a" is there twice`,
	} {
		_, err := seal.ParseKeyring([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), strings.TrimSpace(secret)) {
			t.Errorf("the error names the key: %v", err)
		}
	}
	made, err := seal.NewKeyLine("2026-11")
	if err != nil {
		t.Fatal(err)
	}
	if r := keyring(t, made); r.Key() != "2026-11" {
		t.Fatalf("the id of a new key is %q", r.Key())
	}
	if _, err := seal.NewKeyLine("no id"); err == nil {
		t.Fatal("an id with a space is accepted")
	}
}
