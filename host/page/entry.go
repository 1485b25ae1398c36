package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// maxRelated is how many entries of one handle are listed on the page of one of them.
const maxRelated = 50

// entryData is the page of one entry.
type entryData struct {
	frame
	Entry    entryLine
	Facts    []pair
	Payloads []*payload
	Related  []entryLine // the other entries of its handle
	Restart  string      // the address of a restart from here; empty if there is none
}

// pay adds a payload of an entry, unless it is nil.
func (d *entryData) pay(p *payload, seq store.Seq) {
	if p != nil {
		p.Seq = uint64(seq)
		d.Payloads = append(d.Payloads, p)
	}
}

// dataLabel names the data of an entry.
func dataLabel(e *host.Entry) string {
	switch e.Kind {
	case store.KindStepResult, store.KindChildResult, store.KindCompleted:
		return "Result"
	case store.KindStepFailure, store.KindChildFailure, store.KindAttemptFailed, store.KindFailed:
		return "Error"
	case store.KindSignalAccepted:
		return "Payload of the signal"
	}
	return "Data"
}

// payOf adds the data of another entry.
func (d *entryData) payOf(v *visit, seq store.Seq) error {
	for x, err := range v.ns.JournalOf(v.r.Context(), d.Run.ID, d.Iteration, seq) {
		if err == nil {
			d.pay(show(dataLabel(&x), "data", x.Data), x.Seq)
		}
		return err
	}
	return nil
}

// relate adds the other entries of a handle, and the outcome of a call.
func (d *entryData) relate(v *visit, e *host.Entry) error {
	for x, err := range v.ns.JournalOf(v.r.Context(), d.Run.ID, d.Iteration, 0) {
		if err != nil {
			return err
		}
		if x.Handle != e.Handle || x.Seq == e.Seq {
			continue
		}
		if len(d.Related) < maxRelated {
			d.Related = append(d.Related, entryLineOf(&x))
		}
		switch {
		case !e.Kind.Call() || !x.Kind.Delivery():
		case x.Kind == store.KindSignal:
			if err := d.payOf(v, x.Ref); err != nil {
				return err
			}
		default:
			d.pay(show(dataLabel(&x), "data", x.Data), x.Seq)
		}
	}
	return nil
}

// find reads the entry that the path names.
func (v *visit) find(f *frame) (host.Entry, error) {
	text := v.r.PathValue("seq")
	seq, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return host.Entry{}, say(http.StatusNotFound, "Entries have numbers from 0, got %.40q.", text)
	}
	for e, err := range v.ns.JournalOf(v.r.Context(), f.Run.ID, f.Iteration, store.Seq(seq)) {
		return e, err
	}
	return host.Entry{}, say(http.StatusNotFound, "The journal has no entry %d.", seq)
}

// entry shows one entry with all its data.
func (v *visit) entry() error {
	f, err := v.runFrame("journal")
	if err != nil {
		return err
	}
	e, err := v.find(&f)
	if err != nil {
		return err
	}
	d := &entryData{frame: f, Entry: entryLineOf(&e)}
	add := func(has bool, key, value string) {
		if has {
			d.Facts = append(d.Facts, pair{key, value})
		}
	}
	add(e.Name != "", "Name", e.Name)
	add(e.Target != "", "Target", e.Target)
	add(e.Attempt != 0, "Attempt", strconv.Itoa(int(e.Attempt)))
	add(e.Handle != 0, "Handle", strconv.FormatInt(e.Handle, 10))
	add(e.Refused != 0, "Refused", abi.Code(e.Refused).String())
	add(e.Code != 0, "Code", strconv.Itoa(int(e.Code)))
	add(e.Skipped, "Ended", "before its time")
	add(e.StartUnixMs != 0, "Took", humane(abi.Duration(e.UnixMs-e.StartUnixMs)))
	add(e.Kind == store.KindAttribute, "Value", string(e.Input))
	d.pay(show("Input", "input", e.Input), e.Seq)
	if e.Kind != store.KindChild && e.Kind != store.KindHook { // their data is an id
		d.pay(show(dataLabel(&e), "data", e.Data), e.Seq)
	}
	if e.Kind == store.KindSignal { // bound to an accepted signal
		if err := d.payOf(v, e.Ref); err != nil {
			return err
		}
	}
	if e.Handle != 0 {
		if err := d.relate(v, &e); err != nil {
			return err
		}
	}
	d.pay(show("Options", "options", optionsOf(&e)), e.Seq)
	if slices.Contains([]store.Kind{store.KindStep, store.KindBody, store.KindSleep, store.KindChild}, e.Kind) && e.Name != "" &&
		v.Can(string(actions["restart"].Scope)) {
		d.Restart = v.Run(f.Run.ID, "/do/restart", "from", e.Name)
	}
	return v.write(http.StatusOK, "entry", fmt.Sprintf("%s: entry %d", f.Run.ID, e.Seq), d)
}

// optionsOf returns the options of an entry, without the seed of the run's random numbers in those of the start.
func optionsOf(e *host.Entry) []byte {
	if e.Kind != store.KindStarted {
		return e.Options
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(e.Options, &o) != nil {
		return nil
	}
	delete(o, "seed")
	b, _ := json.Marshal(o) // it was decoded
	return b
}

// download answers with one payload of an entry as it is stored. Browsers must save it and never show it, since its
// content is not trusted.
func (v *visit) download() error {
	f, err := v.runFrame("journal")
	if err != nil {
		return err
	}
	e, err := v.find(&f)
	if err != nil {
		return err
	}
	part := v.r.PathValue("part")
	b, ok := map[string][]byte{"input": e.Input, "data": e.Data, "options": optionsOf(&e)}[part]
	if !ok || len(b) == 0 {
		return say(http.StatusNotFound, "Entry %d has no %.40q.", e.Seq, part)
	}
	kind, end := "application/octet-stream", ".bin"
	if json.Valid(bytes.TrimSpace(b)) {
		kind, end = "application/json", ".json"
	}
	v.w.Header().Set("Content-Type", kind)
	v.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="entry-%d-%s%s"`, e.Seq, part, end))
	_, err = v.w.Write(b)
	return ignore(err)
}
