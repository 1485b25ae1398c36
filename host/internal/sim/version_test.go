package sim

import (
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// version is one version of a workflow.
type version struct {
	flow     *workflow
	number   uint32
	module   store.Digest
	family   int   // versions of one family do the same, except for code behind markers
	level    int64 // of markers: a later version has more code behind them
	body     []stmt
	onCancel int // what it does on a cancel
}

// change is the difference of a statement from the previous version's.
type change uint8

const (
	changeNone    change = iota
	changeInputs         // the statements after it get different inputs
	changeMore           // it is one more
	changeQuietly        // it is additional, and the statements after it do not depend on it
)

func (w *world) programs() {
	w.byMod = map[store.Digest]*version{}
	for i := range 4 {
		f := &workflow{index: i, name: fmt.Sprintf("w%d", i)}
		w.flows = append(w.flows, f)
		first := version{flow: f, body: w.statements(2, 1+w.rng.IntN(6)), onCancel: w.rng.IntN(4)}
		w.upload(first)
		for n := range max(w.rng.IntN(6)-1, 0) {
			v := *f.versions[w.rng.IntN(len(f.versions))]
			switch w.rng.IntN(5) {
			case 0: // the same, compiled again
			case 1:
				v.level++
			default:
				v.body, v.family, v.level = w.changed(v.body), n+1, v.level+w.rng.Int64N(2)
			}
			w.upload(v)
		}
	}
}

// upload adds a version of a workflow.
func (w *world) upload(v version) {
	d, err := w.db.Modules().Put(ctx, fmt.Appendf(nil, "%d %d %d", w.seed, v.flow.index, len(v.flow.versions)), store.ModuleInfo{})
	if err != nil {
		panic(err)
	}
	added, err := w.db.Modules().AddVersions(ctx, []store.VersionSpec{{Workflow: v.flow.name, Module: d}})
	if err != nil {
		panic(err)
	}
	v.number, v.module = added[0].Number, d
	v.flow.versions = append(v.flow.versions, &v)
	w.byMod[d] = &v
}

// changed returns a body that differs in one place.
func (w *world) changed(body []stmt) []stmt {
	list := slices.Clone(body)
	at := w.rng.IntN(len(list) + 1)
	if at < len(list) && len(list[at].list) > 0 && w.odds(1, 2) {
		list[at].list = w.changed(list[at].list)
		return list
	}
	kind := w.rng.IntN(6)
	switch {
	case kind == 0:
		return slices.Insert(list, at, stmt{op: "marker", a: w.rng.Int64N(1 << 30), how: changeQuietly})
	case kind == 1 || at == len(list):
		more := w.statements(1, 1)[0]
		more.how = changeMore + change(w.rng.IntN(2))
		return slices.Insert(list, at, more)
	case kind == 2:
		return slices.Delete(list, at, at+1)
	case kind == 3:
		list[at].how = max(list[at].how, changeInputs)
	case kind == 4:
		list[at].a = w.rng.Int64N(1 << 30)
	default:
		list[at].b = w.rng.Int64N(1 << 30)
	}
	return list
}

// choice is an entry of a journal that chooses a version for the run.
type choice struct {
	module string
	kind   store.Kind // of the entry: started, migrated or retried
	seq    store.Seq
}

// choices returns the versions of a run in order. The last one is in force.
func choices(started journal.Started, entries []store.Entry) []choice {
	list := []choice{{module: started.Module, kind: store.KindStarted}}
	for i := range entries {
		if e := &entries[i]; e.Kind == store.KindMigrated || e.Kind == store.KindRetried && e.Target != "" {
			list = append(list, choice{e.Target, e.Kind, e.Seq})
		}
	}
	return list
}

// inForce returns the version in force in a journal.
func (w *world) inForce(started journal.Started, entries []store.Entry) *version {
	list := choices(started, entries)
	return w.byText(list[len(list)-1].module)
}

func (w *world) byText(module string) *version {
	d, err := store.ParseDigest(module)
	if err != nil || w.byMod[d] == nil {
		w.broken("a journal names modules that there are", "%q: %v", module, err)
	}
	return w.byMod[d]
}

// forced reports whether a retry moved a run to a version that need not be compatible, because a retry does not check
// that. A later migration does check, and another retry under the same version makes no difference.
func (w *world) forced(started journal.Started, entries []store.Entry) bool {
	list := choices(started, entries)
	for i := len(list) - 1; i > 0 && list[i].kind == store.KindRetried; i-- {
		if w.byText(list[i].module).family != w.byText(list[i-1].module).family {
			return true
		}
	}
	return false
}

// forcedAs is like forced for the run as it was when its journal had length entries: it may have been migrated since.
func (w *world) forcedAs(r *run.Run, length store.Seq) bool {
	if r == nil || !r.Exists() {
		return false
	}
	j := r.Journal()
	return w.forced(j.Started(), j.Entries()[:min(length, store.Seq(j.Len()))])
}
