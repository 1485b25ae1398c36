package replay

// Frozen is a machine at a suspension, without its journal.
type Frozen struct{ m *Machine }

// Freeze lets go of everything that the machine does not need to go on, which is at a suspension. It is not used any more.
func (m *Machine) Freeze() Frozen {
	m.cfg, m.entries = Config{}, nil
	return Frozen{m}
}

// Thaw returns the machine, which goes on with the journal to which more was appended since, or nothing. A frozen machine is
// thawed once. The guest may have come to another wait since, in an instance that was not frozen: then it is on its way there
// once more, as in any replay.
func (f Frozen) Thaw(cfg Config) *Machine {
	f.m.cfg = cfg
	f.m.beyond = f.m.suspension.Seq >= cfg.Rested
	f.m.refresh()
	return f.m
}

// What a machine takes beside text and payloads, about.
const (
	machineBytes = 1024
	handleBytes  = 64
	nameBytes    = 48
	takenBytes   = 32
)

// Bytes returns what the machine takes, about.
func (f Frozen) Bytes() int64 {
	m := f.m
	n := machineBytes + cap(m.handles)*handleBytes + (len(m.names)+len(m.markers.answers))*nameBytes + len(m.taken)*takenBytes +
		8*cap(m.events) + 4*cap(m.arrivals.of) + cap(m.last) + cap(m.outcome.Result) + cap(m.outcome.Failure)
	for i := range m.handles {
		n += len(m.handles[i].name)
	}
	return int64(n)
}
