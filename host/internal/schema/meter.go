package schema

import "context"

// Meter counts the work of checking one value.
type Meter struct {
	left, look int
	ctx        context.Context //nolint:containedctx // of the one check
}

// worksPerLook is how much work a check does between two looks at its context.
const worksPerLook = 1024

// NewMeter returns a meter for a check that may do the given work.
func NewMeter(ctx context.Context, work int) *Meter { return &Meter{left: work, ctx: ctx} }

// Spend uses n, and returns false if less was left or the context has ended.
func (m *Meter) Spend(n int) bool {
	m.left -= n
	m.look -= n
	if m.look < 0 {
		m.look = worksPerLook
		if m.ctx.Err() != nil {
			m.left = -1
		}
	}
	return m.left >= 0
}

// Left returns how much work is left.
func (m *Meter) Left() int { return m.left }

// Stopped reports whether the context has ended.
func (m *Meter) Stopped() bool { return m.ctx.Err() != nil }
