package guest

import "github.com/wfhost/wfhost/store"

// tail is the journal of a run that is lent, for the machine.
type tail struct{ w *workflow }

func (t tail) Entries() []store.Entry          { return t.w.lease.Entries() }
func (t tail) CallRoom() error                 { return t.w.lease.CallRoom() }
func (t tail) CheckAttribute(key string) error { return t.w.lease.CheckAttribute(key) }

// Now returns what the run's clock shows.
func (t tail) Now() int64 { return t.w.lease.Now(t.w.r.cfg.Clock.Now().UnixMilli()) }

// Append appends nothing behind the end of a guest that was stopped.
func (t tail) Append(e store.Entry) (store.Entry, error) {
	if err := t.w.Stopped(); err != nil {
		return e, err
	}
	return t.w.lease.Append(t.w.r.cfg.Clock.Now().UnixMilli(), e)
}
