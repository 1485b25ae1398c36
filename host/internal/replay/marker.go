package replay

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// markers holds the answers to the markers of an iteration, by id. Ids are separate from the names of other calls.
type markers struct {
	answers    map[string]int32
	unrecorded int // answers that no entry holds
}

// Version answers a marker. The answer is the number in the journal's next call if that is this marker; else the marker's earlier
// answer in this iteration; else 0 if the journal continues without the marker, which newer code added; else, live, maximum,
// which is recorded.
func (m *Machine) Version(id string, maximum int64) (int64, error) {
	if m.away() {
		return m.refuse(notHere), nil
	}
	name := clean(id)
	e := store.Entry{Kind: store.KindMarker, Name: name, Code: int32(min(max(maximum, 0), math.MaxInt32))}
	want := m.nextCall()
	answer, asked := m.markers.answers[name]
	asked = asked && name == id // an id that had to be cleaned was refused
	switch {
	case want != nil && want.Kind == e.Kind && want.Name == name:
	case asked && m.cfg.Started.Rules >= journal.RulesMarkers:
		m.last = nil
		return int64(answer), nil
	case want != nil:
		return m.passedWithout(id, maximum), nil
	case asked: // before RulesMarkers, a repeated marker needs its own entry: without one, a replay answers 0
		e.Code, maximum = answer, int64(answer)
	}
	n, err := m.call(e, func(*store.Entry) error { return abi.CheckMarker(id, maximum) })
	if err == nil && n >= 0 {
		m.markers.put(name, int32(n))
	}
	return n, err
}

// passedWithout answers a marker that the journal does not have: 0, for the rest of the iteration. From RulesMarkers on, it
// refuses the marker if it answered abi.MaxUnrecordedMarkers other markers this way.
func (m *Machine) passedWithout(id string, maximum int64) int64 {
	m.last = nil
	if _, asked := m.markers.answers[id]; asked || abi.CheckMarker(id, maximum) != nil {
		return 0
	}
	if m.markers.unrecorded >= abi.MaxUnrecordedMarkers {
		if m.cfg.Started.Rules < journal.RulesMarkers {
			return 0
		}
		return m.refuse(abi.Errorf(abi.Limit, "the run has asked for %d markers that its journal does not have, the limit is %d",
			m.markers.unrecorded, abi.MaxUnrecordedMarkers))
	}
	m.markers.put(id, 0)
	m.markers.unrecorded++
	return 0
}

func (k *markers) put(id string, n int32) {
	if k.answers == nil {
		k.answers = map[string]int32{}
	}
	k.answers[id] = n
}
