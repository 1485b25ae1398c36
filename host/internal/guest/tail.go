package guest

import "github.com/wfhost/wfhost/store"

// tail is the journal of a leased run, as the machine sees it.
type tail struct{ w *workflow }

func (t tail) Entries() []store.Entry          { return t.w.lease.Entries() }
func (t tail) CallRoom() error                 { return t.w.lease.CallRoom() }
func (t tail) CheckAttribute(key string) error { return t.w.lease.CheckAttribute(key) }

// Now returns the time of the run's clock.
func (t tail) Now() int64 { return t.w.lease.Now(t.w.r.cfg.Clock.Now().UnixMilli()) }

// Append appends an entry, unless the guest was stopped.
func (t tail) Append(e store.Entry) (store.Entry, error) {
	if err := t.w.Stopped(); err != nil {
		return e, err
	}
	return t.w.lease.Append(t.w.r.cfg.Clock.Now().UnixMilli(), e)
}
