package replay

import (
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// markers are the answers of the markers that an iteration has asked for. Their ids are names of their own.
type markers struct {
	answers    map[string]int32
	unrecorded int // how many of them no entry holds
}

// Version answers a marker: with the number that the journal records next, else with the answer that the marker has had in
// this iteration, else with 0 where an older journal goes on without it, and with maximum, which is recorded, where the guest
// is live.
func (m *Machine) Version(id string, maximum int64) (int64, error) {
	if m.away() {
		return m.refuse(notHere), nil
	}
	name := clean(id)
	e := store.Entry{Kind: store.KindMarker, Name: name, Code: int32(min(max(maximum, 0), math.MaxInt32))}
	want := m.nextCall()
	answer, asked := m.markers.answers[name]
	asked = asked && name == id // what had to be cleaned was never answered
	switch {
	case want != nil && want.Kind == e.Kind && want.Name == name:
	case asked && m.cfg.Started.Rules >= journal.RulesMarkers:
		m.last = nil
		return int64(answer), nil
	case want != nil:
		return m.passedWithout(id, maximum), nil
	case asked: // under these rules only an entry shows that the answer was not a refusal, as it once was
		e.Code, maximum = answer, int64(answer)
	}
	n, err := m.call(e, func(*store.Entry) error { return abi.CheckMarker(id, maximum) })
	if err == nil && n >= 0 {
		m.markers.put(name, int32(n))
	}
	return n, err
}

// passedWithout answers a marker of which an older journal knows nothing: 0, for the rest of the iteration.
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
