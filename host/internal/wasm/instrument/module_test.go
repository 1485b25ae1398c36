package instrument

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func leb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func sized(parts ...[]byte) []byte {
	b := cat(parts...)
	return cat(leb(uint64(len(b))), b)
}

func sec(id byte, parts ...[]byte) []byte { return cat([]byte{id}, sized(parts...)) }

func vec(items ...[]byte) []byte { return cat(leb(uint64(len(items))), cat(items...)) }

func str(s string) []byte { return sized([]byte(s)) }

// guest compiles the Go program of testdata/guest.
var guest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wfhost-rewrite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "m.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = "testdata/guest"
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, b)
	}
	return os.ReadFile(out)
})

func goGuest(t testing.TB) []byte {
	t.Helper()
	wasm, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
