package replay

import "github.com/wfhost/wfhost/store"

// fewLeft is how many deliveries that a guest does not take yet are passed over one by one. Of more, arrivals knows the places:
// a guest that waits for one handle after the other would pass over all of them each time.
const fewLeft = 64

// arrivals is where the deliveries of a journal stand. It is empty until there are many that the guest leaves.
type arrivals struct {
	looked int         // entries that were looked at
	of     []int32     // of each handle, made or not: the index of its delivery; 0 = there is none
	others []store.Seq // deliveries without a handle
}

// look takes in the entries that were not looked at.
func (a *arrivals) look(entries []store.Entry) {
	for ; a.looked < len(entries); a.looked++ {
		switch e := &entries[a.looked]; {
		case !e.Kind.Delivery():
		case e.Handle == 0:
			a.others = append(a.others, e.Seq)
		default:
			for int64(len(a.of)) <= e.Handle {
				a.of = append(a.of, 0)
			}
			a.of[e.Handle] = int32(a.looked) //nolint:gosec // a journal has at most 50,000 entries
		}
	}
}

// first returns the index of the first delivery that a guest takes, which waits for some handles or polls for a clock alone; -1
// if there is none.
func (a *arrivals) first(m *Machine, s *store.Suspension) int {
	a.look(m.entries)
	at := -1
	take := func(i int) {
		if !m.over(i) && (at < 0 || i < at) {
			at = i
		}
	}
	if !s.Poll {
		for _, id := range s.Awaited {
			if id < int64(len(a.of)) && a.of[id] != 0 {
				take(int(a.of[id]))
			}
		}
	}
	for len(a.others) > 0 && m.over(int(a.others[0])) {
		a.others = a.others[1:]
	}
	for _, seq := range a.others {
		if (m.entries[seq].Kind == store.KindClock) == s.Poll {
			take(int(seq))
		}
	}
	return at
}
