package replay

import (
	"math/rand/v2"
	"reflect"
)

// Frozen is a machine at a suspension, without its journal and configuration.
type Frozen struct{ s *state }

// Freeze returns what is needed to continue a machine at a suspension. m must not be used afterwards.
func (m *Machine) Freeze() Frozen {
	s := m.state
	return Frozen{&s}
}

// Thaw returns the machine with the journal in cfg, which may have grown. It must be called at most once. If the guest reached
// a later wait meanwhile, in an instance that was not frozen, the machine replays up to that wait.
func (f Frozen) Thaw(cfg Config) *Machine {
	m := &Machine{state: *f.s, cfg: cfg}
	m.beyond = m.suspension.Seq >= cfg.Rested
	m.refresh()
	return m
}

// Bytes of a frozen machine and of its parts, without text and payloads.
var (
	stateBytes  = int(reflect.TypeFor[state]().Size())
	handleBytes = int(reflect.TypeFor[handle]().Size())
	rngBytes    = int(reflect.TypeFor[rand.ChaCha8]().Size())
	textBytes   = int(reflect.TypeFor[string]().Size())
)

// Bytes returns the approximate memory of the machine in bytes.
func (f Frozen) Bytes() int64 {
	s := f.s
	n := stateBytes + cap(s.handles)*handleBytes + 8*(cap(s.events)+cap(s.suspension.Awaited)+cap(s.arrivals.others)) +
		4*cap(s.arrivals.of) + cap(s.last) + cap(s.outcome.Result) + cap(s.outcome.Failure) +
		mapBytes(s.names, textBytes) + mapBytes(s.markers.answers, textBytes+8) + mapBytes(s.taken, 2*8) +
		mapBytes(s.attributes.of, 2*textBytes)
	if s.rng != nil {
		n += rngBytes
	}
	for i := range s.handles {
		n += len(s.handles[i].name)
	}
	return int64(n)
}

// mapBytes returns the approximate memory of a map whose entries take entryBytes. Its first entry makes room for eight, and a
// larger map is at most seven eighths full.
func mapBytes[K comparable, V any](m map[K]V, entryBytes int) int {
	const header, group = 48, 8
	switch n := len(m); {
	case m == nil:
		return 0
	case n == 0:
		return header
	default:
		return header + max(group, n*3/2)*(entryBytes+1)
	}
}
