package page

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxAttention is how many stuck, how many failed and how many other runs the overview lists.
	maxAttention = 10
	// maxCalm is how many runs of each kind it lists that need no attention.
	maxCalm = 5
	// maxWakes is how many next wakes it lists.
	maxWakes = 10
	// lateAfter is how long after its instant a wake counts as late: before that it may be on its way.
	lateAfter = 5 * time.Second
	// pageRuns is the number of runs on a page of the list.
	pageRuns = 50
	// maxSearched is how many runs a search for a part of an id reads, since there is no index for it.
	maxSearched = 2000
)

// counted is the number of runs with a status.
type counted struct {
	Status string
	N      int64
}

// listed is a run in a list.
type listed struct {
	host.Run
	Why string
}

// overviewData is the overview.
type overviewData struct {
	Counts   []counted
	Total    int64
	Stuck    []listed
	Failed   []listed
	Paused   []listed
	Waiting  []listed // the runs that have waited longest
	Late     []host.Timer
	Wakes    []host.Timer
	Handlers []host.RemoteHandler // whose attempts no worker has taken
	Disk     *host.DiskState      // if it is full
	Copy     bool
	Empty    bool // there are no workflows
	Rates    *pulse
}

// overview shows the overview, with runs that need attention first.
func (v *visit) overview() error {
	d, ctx := &overviewData{Copy: v.p.h.IsCopy()}, v.r.Context()
	counts, err := v.ns.Counts(ctx, "")
	if errors.Is(err, host.ErrNotFound) { // nothing was uploaded to the namespace
		d.Empty = true
		return v.write(http.StatusOK, "overview", "Overview", d)
	}
	if err != nil {
		return err
	}
	for _, s := range shownStatuses {
		d.Counts = append(d.Counts, counted{s.String(), counts[s]})
		d.Total += counts[s]
	}
	for _, x := range []struct {
		status host.Status
		order  host.Order
		most   int
		to     *[]listed
	}{{host.Stuck, host.NewestFirst, maxAttention, &d.Stuck}, {host.Failed, host.NewestFirst, maxAttention, &d.Failed},
		{host.Paused, host.NewestFirst, maxCalm, &d.Paused}, {host.Waiting, host.OldestFirst, maxCalm, &d.Waiting}} {
		if counts[x.status] == 0 {
			continue
		}
		page, err := v.ns.RunPage(ctx, host.Query{Status: x.status, Order: x.order, Limit: x.most})
		if err != nil {
			return err
		}
		*x.to = listOf(page.Runs)
	}
	if err := v.wakes(d); err != nil {
		return err
	}
	handlers, err := v.ns.Attempts().Handlers(ctx)
	if err != nil {
		return err
	}
	for _, h := range handlers {
		if h.Waiting > 0 {
			d.Handlers = append(d.Handlers, h)
		}
	}
	if disk, err := v.p.h.Disk(); err == nil && disk.Full {
		d.Disk = &disk
	}
	if r := v.p.o.rates; r != nil {
		d.Rates = r.pulse(v.namespace)
		if v.seesAll() { // it may belong to another namespace
			d.Rates.Overdue = v.p.h.Stats().Overdue
		}
	}
	if d.Total == 0 {
		d.Empty = true
		for range v.ns.Workflows().Versions(ctx, "") {
			d.Empty = false
			break
		}
	}
	return v.write(http.StatusOK, "overview", "Overview", d)
}

// wakes finds the next wakes and the late ones.
func (v *visit) wakes(d *overviewData) error {
	page, err := v.ns.TimerPage(v.r.Context(), host.TimerQuery{Limit: maxWakes})
	if err != nil {
		return err
	}
	for _, t := range page.Timers {
		if v.now.Sub(t.Due) > lateAfter {
			d.Late = append(d.Late, t)
		} else {
			d.Wakes = append(d.Wakes, t)
		}
	}
	return nil
}

func listOf(runs []host.Run) (list []listed) {
	for _, r := range runs {
		list = append(list, listed{r, reason(&r)})
	}
	return list
}

// runsData is a list of runs with its filters.
type runsData struct {
	Runs      []listed
	Next      string
	First     string // the address of the first page, empty on it
	Statuses  []choice
	Workflows []string
	Workflow  string
	Where     []string
	Since     string
	From, To  string
	Order     string
	Search    string
	Done      string
	Looked    int // how many runs a search has read, if it did not read all
	Filtered  bool
	Cut       bool // a search has found more than it shows
	Problem   string
	Bulk      []offer
}

type choice struct {
	Value  string
	Chosen bool
}

// filterNames are the parameters that select runs, including the namespace.
var filterNames = []string{"workflow", "status", "where", "since", "from", "before", "q", "order", "namespace"}

// knows refuses a request with unknown or invalid parameters: ignoring a misspelt filter would select all runs.
func (v *visit) knows(names ...string) error {
	q, err := url.ParseQuery(v.r.URL.RawQuery)
	if err != nil {
		return say(http.StatusBadRequest, "The parameters of the address cannot be read: %v.", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(names, name) {
			return say(http.StatusBadRequest, "There is no parameter %.80q here. Those that there are: %s.", name,
				strings.Join(names, ", "))
		}
	}
	return nil
}

// filters reads the filters of a list, and the chosen statuses.
func (v *visit) filters() (*runsData, map[string]bool) {
	q := v.r.URL.Query()
	d := &runsData{Workflow: q.Get("workflow"), Since: q.Get("since"), From: q.Get("from"), To: q.Get("before"),
		Order: cmp.Or(q.Get("order"), "newest"), Search: strings.TrimSpace(q.Get("q"))}
	for _, text := range q["where"] {
		if strings.TrimSpace(text) != "" {
			d.Where = append(d.Where, text)
		}
	}
	if _, err := host.ParseCondition(d.Search); err == nil && d.Search != "" { // a condition on an attribute
		d.Where, d.Search = append(d.Where, d.Search), ""
	}
	chosen := map[string]bool{}
	for _, text := range q["status"] {
		for name := range strings.SplitSeq(text, ",") {
			if name != "" {
				chosen[name] = true
			}
		}
	}
	for _, s := range shownStatuses {
		d.Statuses = append(d.Statuses, choice{s.String(), chosen[s.String()]})
	}
	d.Filtered = len(chosen)+len(d.Where) > 0 || d.Workflow+d.Since+d.From+d.To+d.Search != ""
	return d, chosen
}

// runs shows the list of runs.
func (v *visit) runs() error {
	if err := v.knows(append(slices.Clone(filterNames), "cursor", "done")...); err != nil {
		return err
	}
	if text := strings.TrimSpace(v.r.URL.Query().Get("q")); text != "" {
		if to := v.exactly(text); to != "" {
			v.redirect(to)
			return nil
		}
	}
	q := v.r.URL.Query()
	d, chosen := v.filters()
	d.Done = actions[q.Get("done")].Past
	if err := v.workflowNames(&d.Workflows); err != nil {
		return err
	}
	query, err := v.queryOf(d, chosen)
	status := http.StatusOK
	if err == nil {
		err = v.fill(d, query)
	}
	if err != nil {
		status = statusOf(err)
		if status >= http.StatusInternalServerError || status == http.StatusNotFound {
			return err
		}
		d.Problem = upper(err.Error()) + "."
	}
	if query.Cursor != "" {
		q.Del("cursor")
		d.First = v.p.o.prefix + "/runs?" + q.Encode()
	}
	if d.Next != "" {
		q.Set("cursor", d.Next)
		d.Next = v.p.o.prefix + "/runs?" + q.Encode()
	}
	if len(d.Runs) > 0 {
		d.Bulk = v.bulkOffers()
	}
	return v.write(status, "runs", "Runs", d)
}

// exactly returns the address of the run or workflow with the exact name, empty if there is none.
func (v *visit) exactly(text string) string {
	if _, err := v.ns.Get(v.r.Context(), text); err == nil {
		return v.Run(text)
	}
	if _, err := v.ns.Workflows().Version(v.r.Context(), text, 0); err == nil {
		return v.Link("/runs", "workflow", text)
	}
	return ""
}

// workflowNames lists the workflows of the namespace.
func (v *visit) workflowNames(names *[]string) error {
	for w, err := range v.ns.Workflows().Versions(v.r.Context(), "") {
		if errors.Is(err, host.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if n := len(*names); n == 0 || (*names)[n-1] != w.Workflow {
			*names = append(*names, w.Workflow)
		}
	}
	return nil
}

// queryOf reads the filters of a list.
func (v *visit) queryOf(d *runsData, chosen map[string]bool) (host.Query, error) {
	q := host.Query{Workflow: d.Workflow, Cursor: v.r.URL.Query().Get("cursor"), Limit: pageRuns}
	for name, on := range chosen {
		if !on {
			continue
		}
		s, err := store.ParseStatus(name)
		if err != nil {
			return q, say(http.StatusBadRequest, "%v", err)
		}
		q.Statuses = append(q.Statuses, s)
	}
	slices.Sort(q.Statuses)
	for _, text := range d.Where {
		c, err := host.ParseCondition(text)
		if err != nil {
			return q, err
		}
		q.Where = append(q.Where, c)
	}
	var err error
	q.Order, err = host.ParseOrder(d.Order)
	if err != nil {
		return q, err
	}
	if d.Since != "" {
		ms, err := abi.ParseDuration(d.Since)
		if err != nil {
			return q, say(http.StatusBadRequest, "since must be a duration such as 24h or 7d, got %.40q", d.Since)
		}
		q.CreatedFrom = v.now.Add(-abi.Duration(ms))
	}
	for _, x := range []struct {
		name, text string
		to         *time.Time
	}{{"from", d.From, &q.CreatedFrom}, {"before", d.To, &q.CreatedBefore}} {
		if x.text == "" {
			continue
		}
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
			*x.to, err = time.Parse(layout, x.text)
			if err == nil {
				break
			}
		}
		if err != nil {
			return q, say(http.StatusBadRequest, "%s must be an instant such as 2026-01-31T12:00:00Z, got %.40q", x.name, x.text)
		}
	}
	return q, nil
}

// fill reads a page of runs. For a part of an id it searches the newest runs that match.
func (v *visit) fill(d *runsData, q host.Query) error {
	if d.Search == "" {
		page, err := v.ns.RunPage(v.r.Context(), q)
		if errors.Is(err, host.ErrNotFound) { // nothing was uploaded to the namespace
			return nil
		}
		d.Runs, d.Next = listOf(page.Runs), page.Next
		return err
	}
	for r, err := range v.selected(d, q) {
		if err != nil {
			return err
		}
		if len(d.Runs) == pageRuns {
			d.Cut = true
			break
		}
		d.Runs = append(d.Runs, listed{r, reason(&r)})
	}
	return nil
}

// selected iterates over the runs that match the filters of a list. A text search reads at most maxSearched of the
// runs that match the other filters; d.Looked tells if there were more.
func (v *visit) selected(d *runsData, q host.Query) iter.Seq2[host.Run, error] {
	q.Limit, q.Cursor = 0, ""
	if d.Search == "" {
		return v.ns.Runs(v.r.Context(), q)
	}
	q.Limit = maxSearched
	return func(yield func(host.Run, error) bool) {
		n := 0
		for r, err := range v.ns.Runs(v.r.Context(), q) {
			n++
			if n == maxSearched {
				d.Looked = n
			}
			if (err != nil || holds(&r, d.Search)) && !yield(r, err) {
				return
			}
		}
	}
}

// holds reports whether the id of a run, or what a list shows of it, contains a text, ignoring case.
func holds(r *host.Run, text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(r.ID) || has(r.Workflow) || has(reason(r)) {
		return true
	}
	for k, x := range r.Attributes {
		if has(k + "=" + x) {
			return true
		}
	}
	return false
}
