//go:build !linux

package linear

// region is a range of pages; unused on this system.
type region struct{ start, end uint64 }

// mapping is empty on this system: every instance has a copy of the image.
type mapping struct{}

func reserve() []byte { return nil }
func release([]byte)  {}

func (m *mapping) close()                            {}
func (im *Image) share([]byte, Reset) bool           { return false }
func (im *Image) mapped() []byte                     { return nil }
func (m *Memory) unmap()                             {}
func (m *Memory) restoreMapped()                     {}
func (m *Memory) dirty(int) ([]region, func(), bool) { return nil, nil, false }
func (m *Memory) residentMapped() int64              { return 0 }
func (m *Memory) saveMapped() (*Saved, bool)         { return nil, false }
func (m *Memory) loadMapped(*Saved) bool             { return false }
