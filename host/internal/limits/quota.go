package limits

import (
	"fmt"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// QuotaKind is the kind of the errors that quotas return.
const QuotaKind = "quota"

// Quotas decides whether a namespace may use more: runs, starts, wakes and bytes per second, and computing guests. It
// refuses new work only. Runs in progress are not refused: they wait if their namespace has used up its wakes or owes bytes.
// Its methods may be called concurrently.
type Quotas struct {
	InstanceQuotas // computing guests
	WakeQuotas     // wakes per second
	WriteQuotas    // bytes written per second
	used           func(store.NamespaceID) (store.Usage, error)

	mu        sync.Mutex // guards the fields below; used is called while it is held
	otherwise store.Quota
	set       map[store.NamespaceID]store.Quota
	share     Share
	starting  map[store.NamespaceID]int64 // runs that Start admitted and used may not count yet
	rates     map[store.NamespaceID]*bucket
}

// NewQuotas returns Quotas. otherwise applies to namespaces without a quota of their own; used returns the usage of a namespace.
func NewQuotas(otherwise store.Quota, set []store.Quota, used func(store.NamespaceID) (store.Usage, error)) *Quotas {
	q := &Quotas{used: used, otherwise: otherwise, set: map[store.NamespaceID]store.Quota{},
		starting: map[store.NamespaceID]int64{}, rates: map[store.NamespaceID]*bucket{}}
	q.otherwiseLocked()
	for _, x := range set {
		q.Set(x)
	}
	return q
}

// Of returns the quota that applies to a namespace, on all hosts together.
func (q *Quotas) Of(ns store.NamespaceID) store.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(ns)
}

func (q *Quotas) of(ns store.NamespaceID) store.Quota {
	x, ok := q.set[ns]
	if !ok {
		x = q.otherwise
		x.Namespace = ns
	}
	return x
}

// Set sets the quota of a namespace. A quota without limits removes it, so that the default applies.
func (q *Quotas) Set(x store.Quota) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set[x.Namespace] = x
	if x.None() {
		delete(q.set, x.Namespace)
	}
	delete(q.rates, x.Namespace)
	q.InstanceQuotas.set(&x, q.share.Of(x.Instances))
	q.WakeQuotas.set(&x, q.share.Of(x.Wakes))
	q.WriteQuotas.set(&x, q.share.Of(x.Written))
}

func (q *Quotas) otherwiseLocked() {
	q.InstanceQuotas.all(q.share.Of(q.otherwise.Instances))
	q.WakeQuotas.all(q.share.Of(q.otherwise.Wakes))
	q.WriteQuotas.all(q.share.Of(q.otherwise.Written))
}

// SetShare sets which part of all rates, and of the computing guests, this host has. It reports whether that is another one than
// before.
func (q *Quotas) SetShare(s Share) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.share == s {
		return false
	}
	q.share = s
	clear(q.rates)
	q.otherwiseLocked()
	for _, x := range q.set {
		q.InstanceQuotas.set(&x, s.Of(x.Instances))
		q.WakeQuotas.set(&x, s.Of(x.Wakes))
		q.WriteQuotas.rescale(&x, s.Of(x.Written))
	}
	return true
}

// Requests returns how many requests a second this host answers for a namespace; 0 means that there is no limit.
func (q *Quotas) Requests(ns store.NamespaceID) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.share.Of(q.of(ns).Requests)
}

// part says which part of a rate this host has, if it has not all of it.
func (s Share) part(limit int64) string {
	if n := s.Of(limit); n != limit {
		return fmt.Sprintf(", of which this server has %d", n)
	}
	return ""
}

// Replace replaces the quotas of all namespaces by list. It changes nothing about those that are as before.
func (q *Quotas) Replace(list []store.Quota) {
	next := map[store.NamespaceID]store.Quota{}
	for _, x := range list {
		next[x.Namespace] = x
	}
	q.mu.Lock()
	var changed []store.Quota
	for ns, x := range next {
		if q.set[ns] != x {
			changed = append(changed, x)
		}
	}
	for ns := range q.set {
		if _, ok := next[ns]; !ok {
			changed = append(changed, store.Quota{Namespace: ns})
		}
	}
	q.mu.Unlock()
	for _, x := range changed {
		q.Set(x)
	}
}

// Start admits a new run of a namespace. It returns an *abi.Error with code LIMIT that names the exceeded limit, or the error
// of used. The caller calls done when used counts the run, or if the run was not started. done is idempotent.
func (q *Quotas) Start(ns store.NamespaceID, now time.Time) (done func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of(ns)
	if x.Runs > 0 || x.Bytes > 0 {
		u, err := q.used(ns)
		if err != nil {
			return nil, err
		}
		if runs := u.Runs + q.starting[ns]; x.Runs > 0 && runs >= x.Runs {
			return nil, QuotaRefusal("%d runs of the namespace have not ended, its quota is %d; try again when some have", runs, x.Runs)
		}
		if x.Bytes > 0 && u.Bytes >= x.Bytes {
			return nil, QuotaRefusal("the runs of the namespace hold %d bytes, its quota is %d; delete ended runs", u.Bytes, x.Bytes)
		}
	}
	if ms := q.OwesMs(uint32(ns), now.UnixMilli()); ms > 0 {
		return nil, QuotaRefusal("the runs of the namespace write more than %d bytes a second, its quota%s; try again in %v", x.Written,
			q.share.part(x.Written), time.Duration(ms)*time.Millisecond)
	}
	if x.Starts > 0 && !q.rate(ns, x.Starts).take(now.UnixMilli()) {
		return nil, QuotaRefusal("the namespace starts more than %d runs a second, its quota%s; try again soon", x.Starts,
			q.share.part(x.Starts))
	}
	q.starting[ns]++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.starting[ns]--
		if q.starting[ns] == 0 {
			delete(q.starting, ns)
		}
	}), nil
}

// Continued counts a continue-as-new as a start. It is never refused, but may cause later starts to be refused.
func (q *Quotas) Continued(ns store.NamespaceID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.of(ns); x.Starts > 0 {
		b := q.rate(ns, x.Starts)
		b.fill(now.UnixMilli())
		b.spend(1, b.perSecond-1) // a token is there again after a second
	}
}

// QuotaRefusal returns the error for work that a quota refuses.
func QuotaRefusal(format string, args ...any) error {
	e := abi.Errorf(abi.Limit, format, args...)
	e.Kind = QuotaKind
	return e
}

// rate returns the token bucket of a namespace.
func (q *Quotas) rate(ns store.NamespaceID, perSecond int64) *bucket {
	b := q.rates[ns]
	if b == nil {
		full := newBucket(q.share.Of(perSecond))
		b = &full
		q.rates[ns] = b
	}
	return b
}
