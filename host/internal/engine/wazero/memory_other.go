//go:build !linux

package wazero

// mapping is nothing on this system: every instance has a copy of the image.
type mapping struct{}

func (m *mapping) close()                     {}
func (im *image) share(Reset)                 {}
func (im *image) mapped() []byte              { return nil }
func (l *linear) unmap()                      {}
func (l *linear) restoreMapped()              {}
func (l *linear) residentMapped() int64       { return 0 }
func (l *linear) saveMapped() ([]saved, bool) { return nil, false }
