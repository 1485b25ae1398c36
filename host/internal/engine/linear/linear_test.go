package linear

import (
	"bytes"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

const page = 65536

// imageOf makes an image of four pages, the first and the third of which are not zero.
func imageOf(t *testing.T, reset Reset) (im *Image, is []byte) {
	is = make([]byte, 4*page)
	for i := range page {
		is[i], is[2*page+i] = byte(i%251), byte(i%13)
	}
	im = NewImage(is, reset)
	t.Cleanup(im.Close)
	return im, is
}

// scribble writes to several places, two of them in pages that it adds.
func scribble(m *Memory) []byte {
	b := m.Resize(6 * page)
	for i := 0; i < len(b); i += 9001 {
		b[i]++
	}
	copy(b[2*page-100:], bytes.Repeat([]byte{9}, 200)) // parts that meet
	copy(b[4*page-100:], bytes.Repeat([]byte{9}, 200)) // at the end of the image
	return b
}

func each(t *testing.T, f func(t *testing.T, reset Reset)) {
	for reset, name := range resetNames {
		t.Run(name, func(t *testing.T) { f(t, Reset(reset)) })
	}
}

// A restored memory equals the image, and is zero beyond it.
func TestRestore(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		im, is := imageOf(t, reset)
		m := New(im)
		defer m.Free()
		want := append(is, make([]byte, 4*page)...)
		for range 3 {
			scribble(m)
			resident := m.Resident()
			if m.Restore(); m.ResidentAtRestore() != resident {
				t.Errorf("it held %d bytes where %d were resident", m.ResidentAtRestore(), resident)
			}
			if got := m.Resize(8 * page); !bytes.Equal(got, want) {
				t.Fatal("it differs from the image")
			}
		}
	})
}

// A memory that has grown large does not stay large.
func TestRestoreGivesBack(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		im, is := imageOf(t, reset)
		m := New(im)
		defer m.Free()
		for i, b := 0, m.Resize(len(is)+4*MaxSpareBytes); i < len(b); i += 100 {
			b[i] = 7
		}
		if m.Restore(); m.mapped && m.Kept() > MaxSpareBytes {
			t.Errorf("it keeps %d bytes", m.Kept())
		}
		if n := m.Resident(); n > int64(2*len(is)) {
			t.Errorf("%d bytes are resident", n)
		}
		if !bytes.Equal(m.Resize(len(is)), is) {
			t.Error("it differs from the image")
		}
	})
}

// Restoring a saved memory undoes all later writes.
func TestSave(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		im, _ := imageOf(t, reset)
		m := New(im)
		defer m.Free()
		want := bytes.Clone(scribble(m))
		saved := m.Save(len(want))
		if saved == nil || !m.CanSave() {
			t.Fatal("it cannot be saved")
		}
		for range 2 {
			clear(m.Resize(8 * page))
			m.Load(saved)
			if got := m.Resize(8 * page); !bytes.Equal(got[:len(want)], want) || !bytes.Equal(got[len(want):], make([]byte, 2*page)) {
				t.Fatal("it differs from what it was")
			}
		}
		if n := saved.Bytes(); n < 200 || n > 6*page {
			t.Errorf("what is saved takes %d bytes", n)
		}
	})
}

// Restoring is right whichever pages are written before and after a save; so is the next saved memory, which reuses
// the buffer of the first.
func TestSaveOfAny(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		im, _ := imageOf(t, reset)
		m := New(im)
		defer m.Free()
		rapid.Check(t, func(t *rapid.T) {
			m.Restore()
			b := m.Resize(6 * page)
			write := func(what string) {
				for _, at := range rapid.SliceOfN(rapid.IntRange(0, len(b)/pageBytes-1), 0, 40).Draw(t, what) {
					b[at*pageBytes+at]++
				}
			}
			write("before")
			want := bytes.Clone(b)
			saved := m.Save(len(b))
			write("after")
			m.Load(saved)
			saved.Free()
			if !bytes.Equal(b, want) {
				t.Fatal("it differs from what it was")
			}
		})
	})
}

// Patching another memory with a difference makes it equal. The first memory becomes the image again.
func TestDiff(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		im, is := imageOf(t, reset)
		m, other := New(im), New(im)
		defer m.Free()
		defer other.Free()
		want := bytes.Clone(scribble(m))
		delta, ok := m.Diff(len(want))
		if !ok {
			if !bytes.Equal(m.Resize(len(want)), want) {
				t.Error("it was changed")
			}
			t.Skip("nobody tells which pages were written")
		}
		if got := m.Resize(len(want)); !bytes.Equal(got[:len(is)], is) || !bytes.Equal(got[len(is):], make([]byte, 2*page)) {
			t.Error("it is not the image's again")
		}
		for range 2 {
			got := other.Resize(len(want))
			if other.Patch(delta, len(want)); !bytes.Equal(got, want) {
				t.Fatal("the other one differs")
			}
			other.Restore()
		}
		if m.Restore(); m.ResidentAtRestore() == 0 || !bytes.Equal(m.Resize(len(is)), is) {
			t.Errorf("it held %d bytes, or differs from the image", m.ResidentAtRestore())
		}
		if n := delta.Bytes(); n < 400 || n > 2000 {
			t.Errorf("what differs takes %d bytes", n)
		}
	})
}

// The difference of a second memory is stored relative to the first one. It is smaller if they are similar, and right
// if the second has less, more, or is smaller.
func TestDiffOfAnother(t *testing.T) {
	im, is := imageOf(t, ResetAuto)
	first := New(im)
	defer first.Free()
	if _, ok := first.Diff(len(scribble(first))); !ok {
		t.Skip("nobody tells which pages were written")
	}
	for name, c := range map[string]struct {
		write func(m *Memory) []byte
		most  int64
	}{
		"the same": {scribble, 0},
		"one byte more": {func(m *Memory) []byte {
			b := scribble(m)
			b[5*page+77]++
			return b
		}, 40},
		"nothing written": {func(m *Memory) []byte { return m.Resize(len(is)) }, 2000},
		"smaller": {func(m *Memory) []byte {
			b := m.Resize(len(is))
			b[3]++
			return b
		}, 2000},
		"larger": {func(m *Memory) []byte {
			scribble(m)
			b := m.Resize(10 * page)
			b[9*page+1], b[0] = 9, 9
			return b
		}, 80},
	} {
		m, other := New(im), New(im)
		want := bytes.Clone(c.write(m))
		delta, _ := m.Diff(len(want))
		if n := delta.Bytes(); n > c.most {
			t.Errorf("%s: what differs takes %d bytes", name, n)
		}
		if got := m.Resize(max(len(is), len(want))); !bytes.Equal(got[:len(is)], is) {
			t.Errorf("%s: it is not the image's again", name)
		}
		other.Resize(len(want))
		other.Patch(delta, len(want))
		if got := other.Resize(12 * page); !bytes.Equal(got[:len(want)], want) || !bytes.Equal(got[len(want):], make([]byte, 12*page-len(want))) {
			t.Errorf("%s: the other one differs", name)
		}
		other.Restore()
		if got := other.Resize(len(is)); !bytes.Equal(got, is) {
			t.Errorf("%s: a thawed one is not made new", name)
		}
		m.Free()
		other.Free()
	}
}

// A caller that patches a memory must know whether it is mapped or a copy.
func TestMapped(t *testing.T) {
	im, _ := imageOf(t, ResetCopy)
	m := New(im)
	defer m.Free()
	if m.Mapped() {
		t.Error("a copy is a mapping")
	}
}

func TestParseReset(t *testing.T) {
	if _, err := ParseReset("mmap"); err == nil || err.Error() != `a reset is one of ["auto" "scan" "drop" "copy" "none"], got "mmap"` {
		t.Fatal(err)
	}
	if r, err := ParseReset(""); err != nil || r != ResetAuto {
		t.Fatal(r, err)
	}
}

// A shared image uses no Go heap, and exists as long as a memory uses it.
func TestImageIsShared(t *testing.T) {
	each(t, func(t *testing.T, reset Reset) {
		is := bytes.Repeat([]byte{7}, page)
		NewImage(is, reset).Close() // what is made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		im := NewImage(is, reset)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		m := New(im)
		if m.Mapped() != (allocated < page) {
			t.Errorf("an image of %d bytes allocates %d, and is mapped: %v", page, allocated, m.Mapped())
		}
		im.Close()
		m.Resize(page)[5] = 1
		m.Restore()
		if got := m.Resize(page); !bytes.Equal(got, is) {
			t.Error("the image is gone before its memory")
		}
		m.Free()
		m.Free()
		if n := im.users.Load(); n != 0 {
			t.Errorf("%d users are left", n)
		}
	})
}
