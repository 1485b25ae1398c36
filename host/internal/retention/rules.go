package retention

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// rules are the retentions that hold in one namespace.
type rules struct {
	own  map[string]*store.Retention // by workflow
	rest *store.Retention            // of all others
}

// rulesOf sorts retentions by namespace. otherwise is that of workflows for which there is none.
func rulesOf(list []store.Retention, otherwise store.Retention) map[store.NamespaceID]*rules {
	all := map[store.NamespaceID]*rules{}
	for i := range list {
		r := &list[i]
		if all[r.Namespace] == nil {
			all[r.Namespace] = &rules{own: map[string]*store.Retention{}, rest: &otherwise}
		}
		if r.Workflow == "" {
			all[r.Namespace].rest = r
		} else {
			all[r.Namespace].own[r.Workflow] = r
		}
	}
	return all
}

// rulesFor returns the rules of a namespace.
func (w *sweep) rulesFor(ns store.NamespaceID) *rules {
	if r := w.rules[ns]; r != nil {
		return r
	}
	return &rules{rest: &w.cfg.Default}
}

// of returns the retention of a workflow.
func (r *rules) of(workflow string) *store.Retention {
	if own := r.own[workflow]; own != nil {
		return own
	}
	return r.rest
}

// ages returns the ages after which runs are deleted, each once, the least first.
func (r *rules) ages() (list []int64) {
	add := func(x *store.Retention) {
		for _, s := range ended {
			if age := x.AgeMs(s); age > 0 {
				list = append(list, age)
			}
		}
	}
	add(r.rest)
	for _, x := range r.own {
		add(x)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// ended are the statuses of ended runs.
var ended = []store.Status{store.Completed, store.Failed, store.Cancelled, store.Terminated}

// counts deletes what is over the number of runs that workflows may keep.
func (w *sweep) counts(ns store.NamespaceID, r *rules, owned []store.PartitionID) error {
	list, err := w.cfg.Store.Counts(w.ctx, ns)
	if err != nil {
		return err
	}
	runs := map[string]int64{}
	for i := range list {
		runs[list[i].Workflow] += list[i].Runs.Of(ended)
	}
	for workflow, n := range runs {
		x := r.of(workflow)
		if x.Keep == 0 || n <= x.Keep {
			continue
		}
		if err := w.oldest(ns, x, workflow, n-x.Keep, owned); err != nil {
			return err
		}
	}
	return nil
}

// oldest deletes the n oldest ended runs of a workflow, those of other hosts excepted: each of them deletes its own.
func (w *sweep) oldest(ns store.NamespaceID, x *store.Retention, workflow string, n int64, owned []store.PartitionID) error {
	b := batch{sweep: w}
	defer func() { b.run() }()
	q := store.Query{Namespace: ns, Workflow: workflow, Statuses: ended, Oldest: true, Limit: portion}
	for st, err := range store.Runs(w.ctx, w.cfg.Store, q, int(n)) {
		if err != nil {
			return err
		}
		age := x.AgeMs(st.Status)
		reported := w.dry && age > 0 && st.RetainedUnixMs() <= w.now-age
		if reported || st.Aside == store.AsideCopy || !slices.Contains(owned, st.Run.Partition()) {
			continue
		}
		if b.add(store.Position{UnixMs: st.RetainedUnixMs(), ID: st.Run.ID}, st); len(b.runs) == portion {
			b.run()
		}
	}
	return nil
}
