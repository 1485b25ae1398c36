package linear

import "fmt"

// Reset says how the memory of an instance that is used again becomes that of the image.
type Reset uint8

// The ways, from the cheapest. Each falls back to the next where the system does not know it.
const (
	ResetAuto Reset = iota // the first that works
	ResetScan              // ask the kernel which pages were written (PAGEMAP_SCAN, Linux 6.7), copy these
	ResetDrop              // give all written pages back to the kernel, which shows the image again (Linux)
	ResetCopy              // copy the whole image
	ResetNone              // never use an instance again
)

var resetNames = [...]string{ResetAuto: "auto", ResetScan: "scan", ResetDrop: "drop", ResetCopy: "copy", ResetNone: "none"}

// ParseReset reads a name: auto, scan, drop, copy or none. The empty one is auto.
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
