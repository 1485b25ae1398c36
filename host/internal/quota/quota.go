// Package quota says whether a namespace may use more: runs, starts, wakes and bytes a second, and guests that
// compute. What is refused is what would begin; what is in progress goes on.
//
// The package is pure: it starts no goroutine and reads no clock.
package quota

import (
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Kind is the kind of the error of what a quota refuses.
const Kind = "quota"

// Quotas are those of all namespaces. Its methods may be called concurrently.
type Quotas struct {
	Instances // guests that compute
	Wakes     // a second
	Written   // bytes a second
	used      func(store.NamespaceID) (store.Usage, error)

	mu        sync.Mutex // guards the fields below; used is called while it is held
	otherwise store.Quota
	set       map[store.NamespaceID]store.Quota
	starting  map[store.NamespaceID]int64 // runs that were let in, and that used may not count yet
	rates     map[store.NamespaceID]*bucket
}

// New returns quotas, of which otherwise is for the namespaces that have none of their own. used returns what a namespace uses.
func New(otherwise store.Quota, set []store.Quota, used func(store.NamespaceID) (store.Usage, error)) *Quotas {
	q := &Quotas{used: used, otherwise: otherwise, set: map[store.NamespaceID]store.Quota{},
		starting: map[store.NamespaceID]int64{}, rates: map[store.NamespaceID]*bucket{}}
	q.Instances.otherwise, q.Wakes.otherwise = otherwise.Instances, otherwise.Wakes
	q.all(otherwise.Written)
	for _, x := range set {
		q.Set(x)
	}
	return q
}

// Of returns the quota that holds for a namespace.
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

// Set sets the quota of a namespace. One that limits nothing is removed, so that the other one holds.
func (q *Quotas) Set(x store.Quota) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set[x.Namespace] = x
	if x.None() {
		delete(q.set, x.Namespace)
	}
	delete(q.rates, x.Namespace)
	q.Instances.set(&x)
	q.Wakes.set(&x)
	q.Written.set(&x)
}

// Start lets a run of a namespace begin, or returns an *abi.Error of code LIMIT that says which limit is in the way, or that of
// used. done is called when what used returns counts the run, or when the run was not started; more than once is legal.
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
			return nil, Refusal("%d runs of the namespace have not ended, its quota is %d; try again when some have", runs, x.Runs)
		}
		if x.Bytes > 0 && u.Bytes >= x.Bytes {
			return nil, Refusal("the runs of the namespace hold %d bytes, its quota is %d; delete ended runs", u.Bytes, x.Bytes)
		}
	}
	if ms := q.OwesMs(uint32(ns), now.UnixMilli()); ms > 0 {
		return nil, Refusal("the runs of the namespace write more than %d bytes a second, its quota; try again in %v", x.Written,
			time.Duration(ms)*time.Millisecond)
	}
	if x.Starts > 0 && !q.rate(ns, x.Starts, now).take(now) {
		return nil, Refusal("the namespace starts more than %d runs a second, its quota; try again in a second", x.Starts)
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

// Continued counts a run that continues as new among the starts of a second. It is never refused; others are, after it.
func (q *Quotas) Continued(ns store.NamespaceID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.of(ns); x.Starts > 0 {
		q.rate(ns, x.Starts, now).spend(now)
	}
}

// Refusal returns the error of what a quota refuses.
func Refusal(format string, args ...any) error {
	e := abi.Errorf(abi.Limit, format, args...)
	e.Kind = Kind
	return e
}

// rate returns the bucket of a namespace.
func (q *Quotas) rate(ns store.NamespaceID, perSecond int64, now time.Time) *bucket {
	b := q.rates[ns]
	if b == nil {
		b = &bucket{perSecond: float64(perSecond), tokens: float64(perSecond), at: now}
		q.rates[ns] = b
	}
	return b
}

// bucket is a number of tokens that grows with time up to that of a second.
type bucket struct {
	perSecond, tokens float64
	at                time.Time
}

func (b *bucket) fill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 { // not so if the clock was set back
		b.tokens = min(b.perSecond, b.tokens+b.perSecond*passed.Seconds())
	}
	b.at = now
}

// take takes a token, if there is one.
func (b *bucket) take(now time.Time) bool {
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// spend takes a token, of which there may be too few; a second later there is one again, whatever was spent.
func (b *bucket) spend(now time.Time) {
	b.fill(now)
	b.tokens = max(b.tokens-1, 1-b.perSecond)
}
