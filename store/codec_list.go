package store

import "math"

// BusyRun is a record of the list of busy runs: what the counts need to know of a run without reading its state.
type BusyRun struct {
	Status   Status // Queued or Running
	Listed   Status // the status whose list still has the run, see FORMAT.md; 0 = none
	Version  uint32
	Workflow string
}

// AppendBusy encodes the record of a busy run.
func AppendBusy(dst []byte, x *BusyRun) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Status))
	e.uint(2, uint64(x.Listed))
	e.uint(3, uint64(x.Version))
	e.string(4, x.Workflow)
	return e.seal(from)
}

// DecodeBusy decodes what AppendBusy made.
func DecodeBusy(b []byte) (x BusyRun, err error) {
	err = decode("busy run", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Status = Status(min(f.num, math.MaxUint8))
		case 2:
			x.Listed = Status(min(f.num, math.MaxUint8))
		case 3:
			x.Version = small(f.num)
		case 4:
			x.Workflow = string(f.b)
		default:
			return false
		}
		return true
	})
	return x, err
}
