package replay

import "github.com/wfhost/wfhost/store"

// fewLeft is how many untaken deliveries a search passes one by one before it uses arrivals. Otherwise, a guest that awaits many
// handles one after the other would pass all untaken deliveries each time.
const fewLeft = 64

// arrivals indexes the deliveries of a journal. It stays empty until the guest leaves more than fewLeft deliveries untaken.
type arrivals struct {
	indexed int         // number of indexed entries
	of      []int32     // handle to index of its delivery, also for handles not made yet; 0 = none
	others  []store.Seq // deliveries without a handle
}

// index indexes the entries that are not indexed yet.
func (a *arrivals) index(entries []store.Entry) {
	for ; a.indexed < len(entries); a.indexed++ {
		switch e := &entries[a.indexed]; {
		case !e.Kind.Delivery():
		case e.Handle == 0:
			a.others = append(a.others, e.Seq)
		default:
			for int64(len(a.of)) <= e.Handle {
				a.of = append(a.of, 0)
			}
			a.of[e.Handle] = int32(a.indexed) //nolint:gosec // a journal has at most 50,000 entries
		}
	}
}

// first returns the index of the first delivery that the guest takes, -1 if there is none. The guest awaits certain handles, or
// polls for a clock alone.
func (a *arrivals) first(m *Machine, s *store.Suspension) int {
	a.index(m.entries)
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
