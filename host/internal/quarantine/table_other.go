//go:build !unix

package quarantine

import "os"

// open keeps the file open. Each change is written to it.
func (t *table) open(f *os.File) error {
	t.b = make([]byte, rows*slotBytes)
	t.put = func(at int, b []byte) {
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			t.lost = true
		}
	}
	t.done = f.Close
	return nil
}
