package limits

import (
	"math"

	"github.com/wfhost/wfhost/store"
)

// bucket is a token bucket in thousandths of a token. Its capacity is the tokens of one second. Integers guarantee that a token
// is there at the instant that whenMs returns; x/time/rate, with floats, does not.
type bucket struct {
	perSecond, left, atMs int64
}

const (
	// most bounds the credit and the debt, so that no sum of two overflows. It exceeds a second of the greatest quota.
	most = math.MaxInt64 / 4
	// skewMs is how far apart the clock readings of two callers may be. A larger step back means that the clock was set back.
	skewMs = 2000
)

// newBucket returns a full bucket.
func newBucket(perSecond int64) bucket { return bucket{perSecond: perSecond, left: 1000 * perSecond} }

// fill adds the tokens for the time since the last call.
func (b *bucket) fill(nowMs int64) {
	full := 1000 * b.perSecond
	if passed := nowMs - b.atMs; passed > (full-b.left)/b.perSecond {
		b.left = full
	} else if passed > 0 {
		b.left = min(b.left+passed*b.perSecond, full)
	} else if passed >= -skewMs { // a slightly older reading: its milliseconds have been counted
		return
	}
	b.atMs = nowMs
}

// spend takes n tokens, even if there are fewer. owed bounds the debt, in tokens.
func (b *bucket) spend(n, owed int64) {
	b.left = max(b.left-1000*min(n, most/1000), -1000*owed)
}

// whenMs returns when the balance reaches a number of thousandths.
func (b *bucket) whenMs(thousandths int64) int64 {
	if b.left >= thousandths {
		return b.atMs
	}
	return b.atMs + (thousandths-b.left+b.perSecond-1)/b.perSecond
}

// take takes one token, or reports false if there is none.
func (b *bucket) take(nowMs int64) bool {
	if b.fill(nowMs); b.left < 1000 {
		return false
	}
	b.left -= 1000
	return true
}

// perNamespace is the limits of namespaces for one thing.
type perNamespace struct {
	otherwise int64            // of namespaces without their own; 0 = none
	own       map[uint32]int64 // 0 = none
}

// of returns the limit of a namespace; 0 or less means none.
func (p *perNamespace) of(namespace uint32) int64 {
	if limit, ok := p.own[namespace]; ok {
		return limit
	}
	return p.otherwise
}

// set sets the limit of the namespace of a quota, or removes it if the quota has no limits.
func (p *perNamespace) set(x *store.Quota, limit int64) {
	if p.own == nil {
		p.own = map[uint32]int64{}
	}
	p.own[uint32(x.Namespace)] = limit
	if x.None() {
		delete(p.own, uint32(x.Namespace))
	}
}
