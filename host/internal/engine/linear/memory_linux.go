package linear

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wfhost/wfhost/abi"
)

// mapping is an image as a sealed file in memory, which every instance maps copy-on-write: an instance takes memory
// only for the pages that it writes.
type mapping struct {
	file  *os.File // nil: the image is copied
	own   []byte   // Image.bytes, if it is a mapping of the file
	reset Reset    // ResetScan or ResetDrop
}

// share makes the file and the image's own mapping of it. It returns false if that fails: then the image is copied.
func (im *Image) share(memory []byte, want Reset) bool {
	if want >= ResetCopy || len(memory)%os.Getpagesize() != 0 || len(memory) == 0 {
		return false
	}
	fd, err := unix.MemfdCreate("wfhost-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "wfhost-image")
	err = writeImage(f, memory)
	if err == nil {
		im.own, err = unix.Mmap(fd, 0, len(memory), unix.PROT_READ, unix.MAP_PRIVATE)
	}
	if err != nil {
		_ = f.Close() // the image is copied instead
		return false
	}
	im.file, im.bytes, im.reset = f, im.own, ResetDrop
	if want != ResetDrop && canScan() {
		im.reset = ResetScan
	}
	return true
}

// writeImage writes the non-zero pages and seals the file.
func writeImage(f *os.File, memory []byte) error {
	if err := f.Truncate(int64(len(memory))); err != nil {
		return err
	}
	page := os.Getpagesize()
	for at := 0; at < len(memory); at += page {
		if at%Portion == 0 {
			runtime.Gosched()
		}
		if p := memory[at : at+page]; !isZero(p) {
			if _, err := f.WriteAt(p, int64(at)); err != nil {
				return err
			}
		}
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	return err
}

func isZero(page []byte) bool {
	for p := range slices.Chunk(page, len(zeros)) { // the system's pages may be larger than zeros
		if !bytes.Equal(p, zeros[:len(p)]) {
			return false
		}
	}
	return true
}

// close closes the file and the image's own mapping. Mappings of instances stay valid.
func (m *mapping) close() {
	if m.file != nil {
		_ = unix.Munmap(m.own) // it is what was mapped
		_ = m.file.Close()     // it was only read
	}
}

// mapped reserves the address space of the largest memory, and maps the image at its beginning. It returns nil if the
// system has no room, or the image is not shared.
func (im *Image) mapped() []byte {
	if im.file == nil {
		return nil
	}
	b := reserve()
	if b == nil {
		return nil
	}
	start := unsafe.Pointer(&b[0]) //nolint:gosec // b has been mapped with a larger size
	if _, err := unix.MmapPtr(int(im.file.Fd()), 0, start, uintptr(len(im.bytes)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED); err != nil {
		release(b)
		return nil
	}
	return b
}

// reserve maps the address space of the largest memory. Only touched pages take memory.
func reserve() []byte {
	base, err := unix.MmapPtr(-1, 0, nil, abi.MaxMemoryBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	b := unsafe.Slice((*byte)(base), abi.MaxMemoryBytes) //nolint:gosec // it has been mapped with this size
	// A huge page would be counted and cleared as a whole.
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // only a hint
	return b
}

// release unmaps what reserve mapped.
func release(b []byte) {
	_ = unix.MunmapPtr(unsafe.Pointer(&b[0]), abi.MaxMemoryBytes) //nolint:gosec // it is what was mapped
}

func (m *Memory) unmap() {
	if m.base != nil {
		release(m.base)
	}
}

// The ioctl PAGEMAP_SCAN (Linux 6.7, Documentation/admin-guide/mm/pagemap.rst) lists the pages of a range by
// category.
const (
	pagemapScan   = 0xc0606610
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsPfnzero = 1 << 5
)

// scanArg is struct pm_scan_arg, 96 bytes.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, ret                              uint64
}

// region is struct page_region: address of the first page, address after the last page, and their categories.
type region struct {
	start, end uint64
	_          uint64
}

var pagemap = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

// maxRegions is the most regions of pages that a scan reports. If a guest wrote more, all its pages are dropped:
// copying would cost more than the page faults.
const maxRegions = 256

// regionLists are on the heap, because the kernel writes into them and Go moves stacks.
var regionLists = sync.Pool{New: func() any { return new([maxRegions]region) }}

// scan lists the pages of b that differ from the image: private copies, and pages beyond the image, including swapped
// pages. into must be on the heap. It returns false if there are too many regions, or the kernel does not support the
// ioctl.
func scan(b []byte, into *[maxRegions]region) ([]region, bool) {
	f := pagemap()
	if f == nil || len(b) == 0 {
		return nil, f != nil
	}
	start := uint64(uintptr(unsafe.Pointer(&b[0]))) //nolint:gosec // the kernel is told an address, which does not move
	vec := uint64(uintptr(unsafe.Pointer(into)))    //nolint:gosec // on the heap, and kept alive below
	a := scanArg{size: uint64(unsafe.Sizeof(scanArg{})), start: start, end: start + uint64(len(b)),
		vec: vec, vecLen: maxRegions, inverted: pageIsFile | pageIsPfnzero,
		mask: pageIsFile | pageIsPfnzero, anyOf: pageIsPresent | pageIsSwapped, ret: pageIsPresent}
	//nolint:gosec // the pointer is converted where the call is
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&a)))
	runtime.KeepAlive(into)
	if errno != 0 || a.walkEnd < a.end {
		return nil, false
	}
	regions := into[:n]
	for i := range regions {
		regions[i].start -= start
		regions[i].end -= start
	}
	return regions, true
}

// canScan tries the ioctl on a page that was just written.
var canScan = sync.OnceValue(func() bool {
	b, err := unix.Mmap(-1, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(b) }()
	b[os.Getpagesize()] = 1
	into := regionLists.Get().(*[maxRegions]region) //nolint:forcetypeassert // it holds nothing else
	defer regionLists.Put(into)
	got, ok := scan(b, into)
	return ok && len(got) == 1 && got[0].start == uint64(os.Getpagesize()) && got[0].end == uint64(len(b))
})

// maxCopyBack is the most bytes to copy back; above it, dropping the pages is cheaper. Measured with Go guests.
const maxCopyBack = 1 << 20

// restoreMapped undoes what the guest wrote.
func (m *Memory) restoreMapped() {
	b := m.base[:m.high]
	if m.restored && m.held <= maxCopyBack {
		m.restored, m.kept = false, m.held
		return
	}
	m.restored = false
	m.kept, m.held = 0, int64(len(b))
	if m.im.reset == ResetScan {
		into := regionLists.Get().(*[maxRegions]region) //nolint:forcetypeassert // it holds nothing else
		defer regionLists.Put(into)
		dirty, ok := scan(b, into)
		if ok {
			m.held = int64(written(dirty))
		}
		if ok && m.held <= maxCopyBack {
			m.kept = m.held
			for _, r := range dirty {
				m.undo(int(r.start), int(r.end)) //nolint:gosec // within the memory
			}
			return
		}
	}
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil { // cannot fail: the range is mapped
		copy(b, m.im.bytes)
		clear(b[len(m.im.bytes):])
	}
}

// residentMapped returns the bytes of the written pages, or the whole size if the kernel does not report them.
func (m *Memory) residentMapped() int64 {
	if m.im.reset == ResetScan {
		into := regionLists.Get().(*[maxRegions]region) //nolint:forcetypeassert // it holds nothing else
		defer regionLists.Put(into)
		if dirty, ok := scan(m.base[:m.high], into); ok {
			return int64(written(dirty))
		}
	}
	return int64(m.high)
}

// saveMapped saves the written pages. It returns false if the kernel does not report them, or if there are too many.
func (m *Memory) saveMapped() (*Saved, bool) {
	dirty, done, ok := m.dirty(m.high)
	if !ok {
		return nil, false
	}
	defer done()
	if written(dirty) > maxSave {
		return nil, false
	}
	s := &Saved{parts: make([]part, 0, len(dirty)), all: savePool.Get().(*[]byte)} //nolint:forcetypeassert // it holds nothing else
	all := slices.Grow((*s.all)[:0], int(written(dirty)))                          //nolint:gosec // at most maxSave
	for _, r := range dirty {
		from := len(all)
		all = append(all, m.base[r.start:r.end]...)
		s.parts = append(s.parts, part{int(r.start), all[from:]}) //nolint:gosec // within the memory
	}
	*s.all = all
	return s, true
}

// loadMapped is Load if the kernel reports the pages written since, and they are few. It returns false otherwise.
func (m *Memory) loadMapped(s *Saved) bool {
	dirty, done, ok := m.dirty(m.high)
	if !ok {
		return false
	}
	defer done()
	// Undone pages remain private to the guest, so the next Save would include them. Above maxCopyBack they are
	// dropped instead.
	n := int64(written(dirty)) //nolint:gosec // at most the memory
	return (n <= maxCopyBack || n == s.Bytes()) && m.undoTo(s, dirty)
}

// dirty lists the written pages of a memory of that size, valid until done is called. It is not ok if the kernel does
// not report them, or if there are too many.
func (m *Memory) dirty(size int) (pages []region, done func(), ok bool) {
	if !m.mapped || m.im.reset != ResetScan {
		return nil, nil, false
	}
	into := regionLists.Get().(*[maxRegions]region) //nolint:forcetypeassert // it holds nothing else
	pages, ok = scan(m.base[:size], into)
	if !ok {
		regionLists.Put(into)
		return nil, nil, false
	}
	return pages, func() { regionLists.Put(into) }, true
}
