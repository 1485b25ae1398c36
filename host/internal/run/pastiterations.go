package run

import (
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// mostRemoved is how many iterations one commit removes. It bounds the commit of a run whose iterations an earlier
// release has all kept.
const mostRemoved = 8

// past holds the past iterations of a run: see store.RunState.
type past struct {
	kept uint32
	list []store.Past
}

// end adds the iteration before n, which has just ended, and returns how many bytes of earlier iterations the commit
// removes. The iteration that has just ended always stays.
func (p *past) end(j *journal.Journal, n uint32, k Keep) (freed int64) {
	ended := store.Past{Bytes: j.Bytes(), EndedUnixMs: j.LastUnixMs()}
	p.list = append(slices.Clone(p.list), ended)
	p.list = p.list[max(0, len(p.list)-store.MaxPast):]
	to := p.kept
	if keep := k.Number(); keep >= 0 && int64(n) > keep {
		to = max(to, n-uint32(keep)) //nolint:gosec // it is less than n
	}
	known := n - uint32(len(p.list)) //nolint:gosec // at most MaxPast, and so many iterations are over
	for i, x := range p.list {
		if k.ForMs > 0 && ended.EndedUnixMs-x.EndedUnixMs >= k.ForMs {
			to = max(to, known+uint32(i)+1) //nolint:gosec // as above
		}
	}
	to = min(to, n-1, p.kept+mostRemoved)
	for ; p.kept < to; p.kept++ {
		// Earlier releases did not record the size of an iteration. It counts as that of the first iteration with a
		// known size.
		freed += p.list[0].Bytes
		if p.kept >= known {
			p.list, known = p.list[1:], known+1
		}
	}
	return freed
}

// bytes returns the size of all iterations whose size is known.
func (p *past) bytes() (n int64) {
	for _, x := range p.list {
		n += x.Bytes
	}
	return n
}

// pastOf returns the past iterations of an imported run whose whole journals were imported.
func pastOf(i *Import, newest uint32) (p past) {
	for n := range i.Earlier {
		it := &i.Earlier[n]
		if it.Iteration < i.Kept {
			continue
		}
		p.list = append(p.list, store.Past{Bytes: journal.Size(it.Append), EndedUnixMs: it.Append[len(it.Append)-1].UnixMs})
	}
	p.list = p.list[max(0, len(p.list)-store.MaxPast):]
	first := newest // it may be later than 0: see journal.Started
	if len(i.Earlier) > 0 {
		first = i.Earlier[0].Iteration
	}
	p.kept = max(i.Kept, first)
	return p
}
