package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

const (
	// alignWindow is how many calls ahead align looks for the next equal call.
	alignWindow = 64
	// maxPairs is the maximum number of lines of a comparison, after folding equal calls.
	maxPairs = 400
	// keptEqual is how many equal calls are shown before and after a difference.
	keptEqual = 2
	// maxSuggested is the number of suggested runs.
	maxSuggested = 8
)

// moment is a call of a run and its outcome, for a comparison. It has hashes in place of payloads, so that two
// journals of 50,000 entries take some megabytes.
type moment struct {
	Seq        uint64 // of the call
	EndSeq     uint64 // of the entry with the outcome, 0 if there is none
	Kind, Name string
	Target     string
	Outcome    string // kind of the outcome, empty if there is none yet
	Attempts   uint32
	Start, End int64
	in, out    uint64
	void       bool
}

// same reports whether two moments are the same call.
func (m *moment) same(o *moment) bool { return m.Kind == o.Kind && m.Name == o.Name }

// Took formats the duration.
func (m *moment) Took() string {
	if m == nil || m.End == 0 || m.Kind == "start" || m.Kind == "end" {
		return ""
	}
	return humane(abi.Duration(m.End - m.Start))
}

// momentsOf reads a journal as calls with their outcomes, without entries that a retry has voided.
func momentsOf(entries iter.Seq2[host.Entry, error], seed maphash.Seed) ([]*moment, error) {
	var list []*moment
	by, signals := map[int64]*moment{}, map[store.Seq]*moment{}
	hash := func(b []byte) uint64 { return maphash.Bytes(seed, b) }
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		switch {
		case e.Kind == store.KindStarted:
			list = append(list, &moment{Kind: "start", Name: e.Name, Start: e.UnixMs, in: hash(e.Input)})
		case e.Kind == store.KindSignalAccepted:
			signals[e.Seq] = &moment{Seq: uint64(e.Seq), in: hash(e.Data)}
		case e.Kind == store.KindRetried:
			voidMoments(list, &e)
		case e.Kind.End():
			list = append(list, &moment{Seq: uint64(e.Seq), EndSeq: uint64(e.Seq), Kind: "end", Outcome: e.Kind.String(), Start: e.UnixMs,
				End: e.UnixMs, out: hash(e.Data)})
		case e.Kind.Call():
			list = append(list, momentOf(&e, by, hash))
		case e.Kind.Delivery():
			m := by[e.Handle]
			if m == nil {
				continue
			}
			m.EndSeq, m.End, m.Outcome, m.Attempts, m.out = uint64(e.Seq), e.UnixMs, e.Kind.String(), e.Attempt, hash(e.Data)
			if s := signals[e.Ref]; s != nil && e.Kind == store.KindSignal {
				m.EndSeq, m.out = s.Seq, s.in
			}
		}
	}
	kept := list[:0]
	for _, m := range list {
		if !m.void {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// momentOf returns the moment of a call.
func momentOf(e *host.Entry, by map[int64]*moment, hash func([]byte) uint64) *moment {
	m := &moment{Seq: uint64(e.Seq), Kind: e.Kind.String(), Name: e.Name, Target: e.Target, Start: e.UnixMs, in: hash(e.Input)}
	switch {
	case e.Kind == store.KindWithdraw:
		if of := by[e.Handle]; of != nil {
			m.Name = of.Name
		}
	case e.Refused != 0:
		m.Outcome, m.EndSeq, m.End, m.out = "refused", m.Seq, e.UnixMs, hash(e.Data)
	case e.Kind == store.KindHook, e.Kind == store.KindSignalSend:
		m.Target = "" // a token or a run, which differ from run to run
		by[e.Handle] = m
	case e.Handle != 0 && e.Kind != store.KindUpdateReply:
		by[e.Handle] = m
	}
	return m
}

// voidMoments removes what a retry has voided.
func voidMoments(list []*moment, e *host.Entry) {
	void := voidedBy(e)
	for _, m := range list {
		switch {
		case m.Kind != "start" && void(m.Seq):
			m.void = true
		case m.EndSeq != 0 && void(m.EndSeq):
			m.EndSeq, m.End, m.Outcome, m.Attempts, m.out = 0, 0, "", 0, 0
		}
	}
}

// voidedBy returns a function that reports whether a retry has voided an entry.
func voidedBy(e *host.Entry) func(seq uint64) bool {
	var o struct {
		Void []store.Seq `json:"void"`
	}
	_ = json.Unmarshal(e.Options, &o) // older entries have no list: they void all entries from Ref on
	void := map[uint64]bool{}
	for _, seq := range o.Void {
		void[uint64(seq)] = true
	}
	return func(seq uint64) bool {
		return void[seq] || len(o.Void) == 0 && e.Ref != 0 && seq >= uint64(e.Ref) && seq < uint64(e.Seq)
	}
}

// pairing is a call of both runs, or of one of them.
type pairing struct {
	N     int // its index
	A, B  *moment
	Diffs []string // names of the differences
	Minor bool     // differs only in attempts, or in an outcome that is not known yet
	Equal int      // number of equal pairs that it stands for, and which are not shown
}

// Any returns the call of A, or of B if A has none.
func (p *pairing) Any() *moment {
	if p.A != nil {
		return p.A
	}
	return p.B
}

// Differs reports whether there is a difference.
func (p *pairing) Differs() bool { return len(p.Diffs) > 0 }

// align pairs the calls of two runs in order. After a difference, it continues at the nearest call that both have.
func align(a, b []*moment) (list []*pairing) {
	add := func(x, y *moment) { list = append(list, pairOf(len(list), x, y)) }
	for len(a) > 0 || len(b) > 0 {
		if len(a) > 0 && len(b) > 0 && a[0].same(b[0]) {
			add(a[0], b[0])
			a, b = a[1:], b[1:]
			continue
		}
		i, j := meet(a, b)
		for _, x := range a[:i] {
			add(x, nil)
		}
		for _, y := range b[:j] {
			add(nil, y)
		}
		a, b = a[i:], b[j:]
	}
	return list
}

// meet returns how many calls of each list to skip until both have the same call: the minimum, or one of each if they
// do not meet within the window.
func meet(a, b []*moment) (int, int) {
	for n := 1; n <= 2*alignWindow; n++ {
		for i := max(0, n-alignWindow); i <= min(n, alignWindow); i++ {
			if j := n - i; i < len(a) && j < len(b) && a[i].same(b[j]) {
				return i, j
			}
		}
	}
	return min(1, len(a)), min(1, len(b))
}

// pairOf compares two calls.
func pairOf(n int, a, b *moment) *pairing {
	p := &pairing{N: n, A: a, B: b}
	switch {
	case b == nil:
		p.Diffs = []string{"only in the first run"}
		return p
	case a == nil:
		p.Diffs = []string{"only in the second run"}
		return p
	}
	add := func(differs bool, what string) {
		if differs {
			p.Diffs = append(p.Diffs, what)
		}
	}
	add(a.Target != b.Target, "target")
	add(a.in != b.in, "input")
	if a.Outcome != "" && b.Outcome != "" {
		add(a.Outcome != b.Outcome, "outcome")
		add(a.Outcome == b.Outcome && a.out != b.out, "result")
	}
	p.Minor = len(p.Diffs) == 0
	add(a.Outcome != b.Outcome && p.Minor, "not known yet")
	add(a.Attempts != b.Attempts && a.Outcome == b.Outcome, "attempts")
	return p
}

// folded omits equal pairs that are not near a difference.
func folded(list []*pairing) (shown []*pairing, more bool) {
	near := make([]bool, len(list))
	for i, p := range list {
		if p.Differs() {
			for k := max(0, i-keptEqual); k <= min(len(list)-1, i+keptEqual); k++ {
				near[k] = true
			}
		}
	}
	for i := 0; i < len(list); {
		if len(shown) >= maxPairs {
			return shown, true
		}
		n := 0
		for i+n < len(list) && !near[i+n] {
			n++
		}
		if n > 1 {
			shown = append(shown, &pairing{Equal: n})
			i += n
			continue
		}
		shown = append(shown, list[i])
		i++
	}
	return shown, false
}

// compareData is the comparison of two runs.
type compareData struct {
	frame
	With      *host.Run // nil: not chosen yet
	Given     string
	Problem   string
	Suggested []listed
	Pairs     []*pairing
	More      bool
	First     *pairing // the first with a difference other than attempts
	Chosen    *pairing // the pair whose payloads are shown; At is the frame's
	Minor     int      // number of pairs that differ only in attempts, or are not known yet
	Calls     int
	Diffs     []*payloadDiff
	Facts     []string
}

// compare compares two runs, call by call.
func (v *visit) compare() error {
	f, err := v.runFrame("compare")
	if err != nil {
		return err
	}
	d := &compareData{frame: f, Given: strings.TrimSpace(v.r.URL.Query().Get("with"))}
	status := http.StatusOK
	if d.Given != "" {
		other, err := v.ns.Get(v.r.Context(), d.Given)
		switch status = statusOf(err); {
		case err == nil:
			status, d.With = http.StatusOK, &other
		case status < http.StatusInternalServerError:
			d.Problem = upper(err.Error()) + "."
		default:
			return err
		}
	}
	if d.With == nil {
		d.Suggested, err = v.suggest(&f.Run)
		if err != nil {
			return err
		}
		return v.write(status, "compare", f.Run.ID+": compare", d)
	}
	if err := d.align(v); err != nil {
		return err
	}
	return v.write(status, "compare", fmt.Sprintf("%s and %s", f.Run.ID, d.With.ID), d)
}

// suggest returns runs for a comparison: the newest of the workflow, completed ones first.
func (v *visit) suggest(r *host.Run) (list []listed, err error) {
	for _, statuses := range [][]host.Status{{host.Completed}, nil} {
		page, err := v.ns.RunPage(v.r.Context(), host.Query{Workflow: r.Workflow, Statuses: statuses, Limit: 2*maxSuggested + 1})
		if err != nil {
			return nil, err
		}
		for _, x := range page.Runs {
			known := x.ID == r.ID || len(list) == maxSuggested
			for _, l := range list {
				known = known || l.ID == x.ID
			}
			if !known {
				list = append(list, listed{x, reason(&x)})
			}
		}
	}
	return list, nil
}

// align reads both journals and pairs their calls.
func (d *compareData) align(v *visit) error {
	seed := maphash.MakeSeed()
	a, err := momentsOf(v.ns.JournalOf(v.r.Context(), d.Run.ID, d.Iteration, 0), seed)
	if err != nil {
		return err
	}
	b, err := momentsOf(v.ns.Journal(v.r.Context(), d.With.ID, 0), seed)
	if err != nil {
		return err
	}
	all := align(a, b)
	d.Calls = len(all)
	for _, p := range all {
		switch {
		case p.Differs() && p.Minor:
			d.Minor++
		case p.Differs() && d.First == nil:
			d.First = p
		}
	}
	if d.Run.Workflow != d.With.Workflow {
		d.Facts = append(d.Facts, fmt.Sprintf("They are of different workflows, %s and %s.", d.Run.Workflow, d.With.Workflow))
	} else if d.Run.Version != d.With.Version {
		d.Facts = append(d.Facts, fmt.Sprintf("They have versions %d and %d.", d.Run.Version, d.With.Version))
	}
	d.Chosen = d.First
	if v.r.URL.Query().Has("at") {
		n, err := strconv.Atoi(v.r.URL.Query().Get("at"))
		if err != nil || n < 0 || n >= len(all) {
			return say(http.StatusBadRequest, "A call has a number from 0 to %d, got %.40q.", len(all)-1, v.r.URL.Query().Get("at"))
		}
		d.Chosen = all[n]
	}
	d.Pairs, d.More = folded(all)
	if d.Chosen == nil {
		return nil
	}
	return d.payloads(v)
}

// withoutHistory returns the data of an entry. It omits the details of errors, which repeat the errors of earlier
// attempts; those attempts have entries of their own.
func withoutHistory(e *host.Entry) []byte {
	if e.Kind != store.KindStepFailure && e.Kind != store.KindChildFailure && e.Kind != store.KindFailed {
		return e.Data
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Data, &fields) != nil {
		return e.Data
	}
	delete(fields, "details")
	b, err := json.Marshal(fields)
	if err != nil {
		return e.Data
	}
	return b
}

// payloads reads the input and the outcome of the chosen call, in both runs.
func (d *compareData) payloads(v *visit) error {
	read := func(id string, iteration uint32, seq uint64) (host.Entry, error) {
		for e, err := range v.ns.JournalOf(v.r.Context(), id, iteration, store.Seq(seq)) {
			return e, err
		}
		return host.Entry{}, nil
	}
	var in, out [2][]byte
	for i, x := range []struct {
		run       *host.Run
		iteration uint32
		m         *moment
	}{{&d.Run, d.Iteration, d.Chosen.A}, {d.With, d.With.Iteration, d.Chosen.B}} {
		if x.m == nil {
			continue
		}
		e, err := read(x.run.ID, x.iteration, x.m.Seq)
		if err != nil {
			return err
		}
		in[i] = e.Input
		if x.m.EndSeq == 0 {
			continue
		}
		e, err = read(x.run.ID, x.iteration, x.m.EndSeq)
		if err != nil {
			return err
		}
		out[i] = withoutHistory(&e)
	}
	for _, x := range []struct {
		label string
		of    [2][]byte
	}{{"Input", in}, {"Outcome", out}} {
		if len(x.of[0])+len(x.of[1]) > 0 {
			d.Diffs = append(d.Diffs, diffOf(x.label, x.of[0], x.of[1], bytes.Equal(x.of[0], x.of[1])))
		}
	}
	return nil
}
