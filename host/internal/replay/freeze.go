package replay

// Frozen is a machine at a suspension, without its journal.
type Frozen struct{ m *Machine }

// Freeze releases the journal and the configuration of a machine at a suspension. m must not be used afterwards.
func (m *Machine) Freeze() Frozen {
	m.cfg, m.entries = Config{}, nil
	return Frozen{m}
}

// Thaw returns the machine with the journal in cfg, which may have grown. It must be called at most once. If the guest reached
// a later wait meanwhile, in an instance that was not frozen, the machine replays up to that wait.
func (f Frozen) Thaw(cfg Config) *Machine {
	f.m.cfg = cfg
	f.m.beyond = f.m.suspension.Seq >= cfg.Rested
	f.m.refresh()
	return f.m
}

// Approximate bytes of a machine and its parts, without text and payloads.
const (
	machineBytes = 1024
	handleBytes  = 64
	nameBytes    = 48
	takenBytes   = 32
)

// Bytes returns the approximate memory of the machine in bytes.
func (f Frozen) Bytes() int64 {
	m := f.m
	n := machineBytes + cap(m.handles)*handleBytes + (len(m.names)+len(m.markers.answers))*nameBytes + len(m.taken)*takenBytes +
		8*cap(m.events) + 4*cap(m.arrivals.of) + cap(m.last) + cap(m.outcome.Result) + cap(m.outcome.Failure)
	for i := range m.handles {
		n += len(m.handles[i].name)
	}
	return int64(n)
}
