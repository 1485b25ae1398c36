package linear

import "fmt"

// Reset is a way to make the memory of a reused instance equal to the image.
type Reset uint8

// The ways, cheapest first. Each falls back to the next if the system does not support it.
const (
	ResetAuto Reset = iota // the first that works
	ResetScan              // ask the kernel which pages were written (PAGEMAP_SCAN, Linux 6.7), and copy these
	ResetDrop              // return all written pages to the kernel, which shows the image again (Linux)
	ResetCopy              // copy the whole image
	ResetNone              // never reuse an instance
)

var resetNames = [...]string{ResetAuto: "auto", ResetScan: "scan", ResetDrop: "drop", ResetCopy: "copy", ResetNone: "none"}

// ParseReset parses a name: auto, scan, drop, copy or none. An empty name is auto.
func ParseReset(name string) (Reset, error) {
	if name == "" {
		return ResetAuto, nil
	}
	for r, n := range resetNames {
		if n == name {
			return Reset(r), nil
		}
	}
	return 0, fmt.Errorf("a reset is one of %q, got %q", resetNames, name)
}
