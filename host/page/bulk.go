package page

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/host"
)

const (
	// maxBulk is the maximum number of runs per confirmation: a form carries as many ids with ease, and changing them
	// takes seconds. The next confirmation continues with the rest.
	maxBulk = 1000
	// bulkParallel is the number of concurrent changes, which share commits.
	bulkParallel = 16
	// shownBulk is the number of runs that are listed; the rest is folded.
	shownBulk = 20
)

// bulkActions has the actions on many runs, in the order of their buttons, and the statuses to which each applies.
var bulkActions = []struct {
	name string
	fits func(host.Status) bool
}{
	{"retry", func(s host.Status) bool { return s == host.Failed || s == host.Stuck }},
	{"pause", func(s host.Status) bool { return !s.Terminal() && s != host.Paused && s != host.Stuck }},
	{"unpause", func(s host.Status) bool { return s == host.Paused }},
	{"cancel", func(s host.Status) bool { return !s.Terminal() }},
	{"terminate", func(s host.Status) bool { return !s.Terminal() }},
	{"delete", host.Status.Terminal},
}

// fitting returns the statuses to which a bulk action applies, nil for other actions.
func fitting(action string) func(host.Status) bool {
	for _, a := range bulkActions {
		if a.name == action {
			return a.fits
		}
	}
	return nil
}

// bulkOffers returns the actions on all runs that match a list's filters.
func (v *visit) bulkOffers() (list []offer) {
	q := v.r.URL.Query()
	q.Del("cursor")
	q.Del("done")
	for _, b := range bulkActions {
		if a := actions[b.name]; v.Can(string(a.Scope)) {
			list = append(list, offer{action: a, Name: b.name, Link: v.p.o.prefix + "/bulk/" + b.name + "?" + q.Encode()})
		}
	}
	return list
}

// bulkData is the page that confirms a bulk action, or reports its result.
type bulkData struct {
	action
	Name    string
	Back    string // the list
	To      string
	Filters []pair
	Runs    []listed // to which the action applies
	Counts  []counted
	Left    int  // matching runs to which the action does not apply
	More    bool // there are more than maxBulk
	Every   bool // there are no filters
	Fields  []field
	Problem string

	Finished bool
	Changed  int
	Refused  []pair // ids with reasons
}

// Shown returns the listed runs.
func (d *bulkData) Shown() []listed { return d.Runs[:min(len(d.Runs), shownBulk)] }

// Folded returns the folded runs.
func (d *bulkData) Folded() []listed { return d.Runs[min(len(d.Runs), shownBulk):] }

// bulkDataOf returns the page of a bulk action, without its runs.
func (v *visit) bulkDataOf() (*bulkData, error) {
	name := v.r.PathValue("action")
	if fitting(name) == nil {
		return nil, say(http.StatusNotFound, "There is no action %.80q on many runs.", name)
	}
	if err := v.knows(filterNames...); err != nil {
		return nil, err
	}
	a := actions[name]
	if err := v.needs(a.Scope); err != nil {
		return nil, err
	}
	query := ""
	if v.r.URL.RawQuery != "" {
		query = "?" + v.r.URL.Query().Encode()
	}
	return &bulkData{action: a, Name: name, Back: v.p.o.prefix + "/runs" + query, To: v.p.o.prefix + "/bulk/" + name + query}, nil
}

// confirmBulk shows what an action will do to all runs that match the filters of a list.
func (v *visit) confirmBulk() error {
	d, err := v.bulkDataOf()
	if err != nil {
		return err
	}
	return v.showBulk(http.StatusOK, d)
}

func (v *visit) showBulk(status int, d *bulkData) error {
	list, chosen := v.filters()
	query, err := v.queryOf(list, chosen)
	if err != nil {
		return err
	}
	d.Every = !list.Filtered
	d.describe(v, list)
	fits, counts := fitting(d.Name), map[host.Status]int64{}
	for r, err := range v.selected(list, query) {
		if err != nil {
			return err
		}
		switch {
		case !fits(r.Status):
			d.Left++
		case len(d.Runs) == maxBulk:
			d.More = true
		default:
			d.Runs = append(d.Runs, listed{r, reason(&r)})
			counts[r.Status]++
		}
		if d.More || d.Left >= maxSearched {
			d.More = true
			break
		}
	}
	for _, s := range shownStatuses {
		if counts[s] > 0 {
			d.Counts = append(d.Counts, counted{s.String(), counts[s]})
		}
	}
	if d.Name == "retry" {
		d.Fields = append(d.Fields, field{Name: "version", Label: "Version", Kind: "number", Value: v.form.Get("version"),
			Help: "Empty: each goes on under its own."})
	}
	if d.Every && len(d.Runs) > 0 {
		d.Fields = append(d.Fields, field{Name: "all", Label: "These are all runs, without a filter", Kind: "check", Required: true})
	}
	return v.write(status, "bulk", d.Label+" many runs", d)
}

// describe describes the filters that selected the runs.
func (d *bulkData) describe(v *visit, list *runsData) {
	for _, p := range []pair{{"Status", strings.Join(v.r.URL.Query()["status"], ", ")}, {"Workflow", list.Workflow},
		{"Created within", list.Since}, {"Created from", list.From}, {"Created before", list.To},
		{"Attributes", strings.Join(list.Where, ", ")}, {"Id has", list.Search}} {
		if p.Value != "" {
			d.Filters = append(d.Filters, p)
		}
	}
}

// actBulk performs the confirmed action on the listed runs, whatever the filters match by now. A run refuses an action
// that does not apply any more.
func (v *visit) actBulk() error {
	d, err := v.bulkDataOf()
	if err != nil {
		return err
	}
	ids := v.form["id"]
	list, _ := v.filters()
	switch {
	case len(ids) == 0:
		d.Problem = "There is no such run any more."
	case len(ids) > maxBulk:
		return say(http.StatusBadRequest, "An action is done to at most %d runs at once, got %d.", maxBulk, len(ids))
	case !list.Filtered && v.form.Get("all") != "true":
		d.Problem = "It is all runs there are, without a filter: confirm that this is meant."
	}
	if d.Problem != "" {
		return v.showBulk(http.StatusBadRequest, d)
	}
	errs := v.doBulk(d.Name, ids)
	for i, err := range errs {
		if err == nil {
			d.Changed++
		} else {
			d.Refused = append(d.Refused, pair{ids[i], upper(strings.TrimSuffix(err.Error(), ".")) + "."})
		}
	}
	d.Finished, v.changed = true, d.Changed > 0
	return v.write(http.StatusOK, "bulk", fmt.Sprintf("%s: %s", d.Label, plural(d.Changed, "run", "runs")), d)
}

// doBulk performs an action on runs, and returns an error or nil for each.
func (v *visit) doBulk(name string, ids []string) []error {
	errs, next := make([]error, len(ids)), make(chan int)
	var wg sync.WaitGroup
	for range min(bulkParallel, len(ids)) {
		wg.Go(func() {
			for i := range next {
				_, errs[i] = runActions[name](v, v.r.Context(), ids[i])
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	wg.Wait()
	return errs
}
