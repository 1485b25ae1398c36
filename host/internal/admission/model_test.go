package admission

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model implements the rules of an admission without regard to speed. All of its guests are in one group, and none
// computes for a slice.
type model struct {
	places           int
	limit, parkLimit int64
	guests           []*modelGuest
	queue            []*modelGuest // waiting guests in order of arrival
	parked           []*modelGuest // in the order in which they were parked
	before           int           // guests that entered while a new one waits
}

type modelGuest struct {
	at      standing
	bytes   int64
	class   Class
	evicted bool // and has not looked

	place   *Place
	request *Request
	begun   int // of the request
	refused int
	begins  int // what the model expects of them
	refuses int
}

func (m *model) count(at ...standing) (n int, bytes int64) {
	for _, g := range m.guests {
		if slices.Contains(at, g.at) {
			n, bytes = n+1, bytes+g.bytes
		}
	}
	return n, bytes
}

func (m *model) held() int64 {
	_, bytes := m.count(inside, rested, parked, returning, evicted)
	return bytes
}

func (m *model) room(g *modelGuest) bool {
	n, _ := m.count(inside)
	_, stays := m.count(inside, rested, returning)
	return n < m.places && (g.at == returning || stays == 0 || m.held()+g.bytes <= m.limit)
}

// next returns the guest that enters next if there is room for it; nil if none waits.
func (m *model) next() *modelGuest {
	for c := range Class(classes) {
		if first := m.first(c); first != nil {
			if g := m.first(Starting); c == Woken && m.before >= maxBefore && g != nil && m.room(g) {
				return g
			}
			return first
		}
	}
	return nil
}

func (m *model) first(c Class) *modelGuest {
	for _, g := range m.queue {
		if g.class == c {
			return g
		}
	}
	return nil
}

func (m *model) evictFirst() {
	g := m.parked[0]
	m.parked = m.parked[1:]
	g.at, g.evicted = evicted, true
}

// evictFor evicts guests until there is room for the remaining ones and the wanted memory.
func (m *model) evictFor(wanted int64) {
	for len(m.parked) > 0 {
		if _, bytes := m.count(inside, rested, parked, returning); bytes+wanted <= m.limit {
			return
		}
		m.evictFirst()
	}
}

func (m *model) enter(g *modelGuest) {
	switch {
	case g.class == Starting:
		m.before = 0
	case g.class == Woken && m.first(Starting) != nil:
		m.before++
	}
	had := g.at == returning
	g.at = inside
	if !had {
		m.evictFor(0)
	}
}

// returns has a guest that still has an instance wait with it.
func (m *model) returns(g *modelGuest) {
	if g.at != outside {
		m.out(g)
		g.at = returning
	}
}

func (m *model) out(g *modelGuest) {
	m.parked = slices.DeleteFunc(m.parked, func(o *modelGuest) bool { return o == g })
	g.at, g.evicted = outside, false
}

func (m *model) withdraw(g *modelGuest) {
	m.queue = slices.DeleteFunc(m.queue, func(o *modelGuest) bool { return o == g })
	g.refuses++
}

// settle lets in the guests for which there is room, and evicts for guests that wait only for memory.
func (m *model) settle() {
	for g := m.next(); g != nil; g = m.next() {
		if !m.room(g) {
			break
		}
		m.queue = slices.DeleteFunc(m.queue, func(o *modelGuest) bool { return o == g })
		g.begins++
		m.enter(g)
	}
	var wanted int64
	n, _ := m.count(inside)
	free := m.places - n
	for c := range Class(classes) {
		for _, g := range m.queue {
			if g.class != c || free <= 0 {
				continue
			}
			free--
			if g.at != returning {
				wanted += g.bytes
			}
		}
	}
	if wanted > 0 {
		m.evictFor(wanted)
	}
}

// check compares the admission with the model.
func (m *model) check(t *rapid.T, a *Admission) {
	n, _ := m.count(inside)
	_, leaving := m.count(evicted)
	_, kept := m.count(parked)
	resting, _ := m.count(rested)
	if a.free != m.places-n || a.resting != resting || a.held != m.held() || a.leaving != leaving || a.parkedBytes != kept {
		t.Fatalf("%d of %d places are free, %d rest, %d bytes held, %d leaving, %d parked; want %d, %d, %d, %d and %d",
			a.free, a.total, a.resting, a.held, a.leaving, a.parkedBytes, m.places-n, resting, m.held(), leaving, kept)
	}
	if got, want := instancesOf(a), n+resting+len(m.parked); got != want {
		t.Fatalf("%d instances, want %d", got, want)
	}
	for i, g := range m.guests {
		if g.place.at != g.at || g.begun != g.begins || g.refused != g.refuses || (len(g.place.evict) > 0) != g.evicted {
			t.Fatalf("guest %d stands at %d, begun %d, refused %d, evicted %d; want %d, %d, %d and %v",
				i, g.place.at, g.begun, g.refused, len(g.place.evict), g.at, g.begins, g.refuses, g.evicted)
		}
	}
}

// idle reports whether a guest is outside and not waiting.
func (m *model) idle(g *modelGuest) bool { return g.at == outside && !slices.Contains(m.queue, g) }

// TestModel performs random operations, and compares with the model after each.
func TestModel(t *testing.T) {
	for range 100 { // a hundred checks each, of a few dozen operations
		rapid.Check(t, testModel)
	}
}

func testModel(t *rapid.T) {
	m := &model{places: rapid.IntRange(1, 4).Draw(t, "places"), limit: 100, parkLimit: rapid.Int64Range(0, 100).Draw(t, "park")}
	a := New(m.places, m.limit, m.parkLimit)
	for range rapid.IntRange(1, 8).Draw(t, "guests") {
		g := &modelGuest{bytes: rapid.Int64Range(1, 120).Draw(t, "bytes")}
		g.place = a.NewPlace(g.bytes)
		m.guests = append(m.guests, g)
	}
	draw := func() *modelGuest { return rapid.SampledFrom(m.guests).Draw(t, "guest") }
	done, cancel := context.WithCancel(context.Background())
	cancel()
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			g := draw()
			if !m.idle(g) {
				t.Skip()
			}
			g.class = Class(rapid.IntRange(0, int(Starting)).Draw(t, "class"))
			g.request = &Request{Place: g.place, Class: g.class, Begin: func() { g.begun++ }, Refuse: func() { g.refused++ }}
			m.queue = append(m.queue, g)
			m.settle()
			a.Ask(g.request)
		},
		"withdraw": func(t *rapid.T) {
			g := draw()
			if g.request == nil {
				t.Skip()
			}
			if slices.Contains(m.queue, g) {
				m.withdraw(g)
				m.settle()
			}
			g.request.Withdraw()
		},
		"refuse all": func(*rapid.T) {
			for len(m.queue) > 0 {
				m.withdraw(m.queue[0])
			}
			a.RefuseAll()
		},
		"enter": func(t *rapid.T) { // who has to wait gives up at once
			g := draw()
			if slices.Contains(m.queue, g) {
				t.Skip()
			}
			begins := g.begins
			m.returns(g)
			g.class = Class(rapid.IntRange(0, int(Starting)).Draw(t, "class"))
			m.queue = append(m.queue, g)
			m.enterFirst(g)
			m.settle()
			entered := g.at == inside
			g.begins = begins
			if !entered {
				m.out(g)
				m.queue = slices.DeleteFunc(m.queue, func(o *modelGuest) bool { return o == g })
				m.settle()
			}
			ctx := done
			if entered {
				ctx = context.Background()
			}
			if err := g.place.Enter(ctx, g.class, nil); (err == nil) != entered {
				t.Fatalf("enter: %v, want %v", err, entered)
			}
		},
		"try": func(t *rapid.T) {
			g := draw()
			n, _ := m.count(inside)
			want := g.at == parked && n < m.places &&
				!slices.ContainsFunc(m.queue, func(o *modelGuest) bool { return o.class == Resuming })
			if want {
				m.parked = slices.DeleteFunc(m.parked, func(o *modelGuest) bool { return o == g })
				g.at = inside
			}
			if got := g.place.TryEnter(); got != want {
				t.Fatalf("TryEnter: %v, want %v", got, want)
			}
		},
		"park": func(t *rapid.T) {
			g, bytes := draw(), rapid.Int64Range(1, 120).Draw(t, "bytes")
			if g.at == inside || g.at == rested {
				g.at, g.bytes = parked, bytes
				m.parked = append(m.parked, g)
				for _, kept := m.count(parked); kept > m.parkLimit; _, kept = m.count(parked) {
					m.evictFirst()
				}
				m.settle()
			}
			g.place.Park(bytes)
		},
		"rest": func(*rapid.T) {
			g := draw()
			if n, _ := m.count(rested); g.at == inside && n < m.places {
				g.at = rested
				m.settle()
			}
			g.place.Rest()
		},
		"wake": func(*rapid.T) {
			g := draw()
			if g.at == rested {
				g.at = inside
			}
			g.place.Wake()
		},
		"look": func(t *rapid.T) {
			g := draw()
			if len(g.place.Evicted()) > 0 {
				<-g.place.Evicted()
				g.evicted = false
			}
		},
		"leave": func(t *rapid.T) {
			g := draw()
			if g.at != outside {
				m.out(g)
				m.settle()
			}
			g.place.Leave()
		},
		"evict all": func(*rapid.T) {
			for len(m.parked) > 0 {
				m.evictFirst()
			}
			a.EvictAll()
		},
		"": func(t *rapid.T) { m.check(t, a) },
	})
	for len(m.queue) > 0 {
		g := m.queue[0]
		m.withdraw(g)
		m.settle()
		g.request.Withdraw()
	}
	for _, g := range m.guests {
		m.out(g)
		m.settle()
		g.place.Leave()
	}
	m.check(t, a)
	if a.free != a.total || a.held != 0 {
		t.Fatalf("%d of %d places are free, %d bytes are held", a.free, a.total, a.held)
	}
}

// enterFirst lets in a guest that has just asked, if it is next. Guests of later classes do not get what it has just
// given up.
func (m *model) enterFirst(g *modelGuest) {
	if m.next() != g || !m.room(g) {
		return
	}
	m.queue = slices.DeleteFunc(m.queue, func(o *modelGuest) bool { return o == g })
	m.enter(g)
}
