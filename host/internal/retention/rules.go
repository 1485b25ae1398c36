package retention

import (
	"slices"

	"github.com/wfhost/wfhost/store"
)

// rules are the retentions of one namespace.
type rules struct {
	own  map[string]*store.Retention // by workflow
	rest *store.Retention            // of the other workflows
}

// rulesOf groups retentions by namespace. otherwise applies to workflows without one.
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

// ages returns the distinct ages after which runs are deleted, in ascending order.
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
