package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/wfhost/wfhost/host/internal/datadir"
)

// TestSpool reads spooled files, small and large. Their content cannot be found on disk.
func TestSpool(t *testing.T) {
	h := &Host{cfg: Config{Dir: t.TempDir()}, disk: datadir.NewDiskMonitor(datadir.Config{Reserve: -1})}
	marker := []byte("MARKER")
	for _, size := range []int{0, 10, smallSpool, smallSpool + 1, spoolPiece, 3*spoolPiece + 5} {
		file := bytes.Repeat(marker, size/len(marker)+1)[:size]
		f, err := h.spool(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if (f.f != nil) != (size >= smallSpool) {
			t.Errorf("%d bytes are on disk: %t", size, f.f != nil)
		}
		if f.f != nil {
			raw := make([]byte, size)
			if n, err := f.f.ReadAt(raw, 0); n != size || bytes.Contains(raw, marker) {
				t.Errorf("%d bytes are on disk of %d, or in the clear: %v", n, size, err)
			}
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, file) {
			t.Errorf("%d bytes: %d were read, %v", size, len(got), err)
		}
		f.Close()
	}
	cut := io.MultiReader(bytes.NewReader(make([]byte, 2*smallSpool)), &failing{})
	if _, err := h.spool(cut); !errors.Is(err, errCut) {
		t.Error(err)
	}
	if err := os.WriteFile(h.cfg.Dir+"/import-7.tmp", marker, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.removeSpools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(h.cfg.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

var errCut = errors.New("cut")

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errCut }
