package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
)

const (
	// checkTime bounds a check or a migration from the page, which answers at its end. Longer ones need the command
	// line.
	checkTime = time.Minute
	// maxReports is how many misfits are listed.
	maxReports = 200
)

// reportData is the page with the results of a check or a migration.
type reportData struct {
	Workflow string
	To       uint32
	From     string // only runs of this version; empty for all other versions
	Migrated bool   // it was a migration
	Sum      host.CheckSummary
	Misfits  []host.RunCheck // runs that diverge, or were not checked
	Noted    []host.RunCheck // compatible runs with notes
	Cut      bool            // some are not listed
	Total    int64           // number of runs if the time was over before all were checked, else 0
}

// versionOf returns the version that the path names.
func (v *visit) versionOf() (host.Version, error) {
	name, text := v.r.PathValue("workflow"), v.r.PathValue("version")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return host.Version{}, say(http.StatusNotFound, "Versions have numbers from 1, got %.40q.", text)
	}
	return v.ns.Workflows().Version(v.r.Context(), name, uint32(n))
}

// confirmVersion shows what a check of a version, or a migration to it, will do.
func (v *visit) confirmVersion() error { return v.confirmationOfVersion(http.StatusOK, "") }

func (v *visit) confirmationOfVersion(status int, problem string) error {
	name := v.r.PathValue("action")
	if name != "check" && name != "migrate" {
		return say(http.StatusNotFound, "There is no action %.80q on a version.", name)
	}
	a := actions[name]
	if err := v.needs(a.Scope); err != nil {
		return err
	}
	to, err := v.versionOf()
	if err != nil {
		return err
	}
	versions, err := v.ns.Workflows().LiveVersions(v.r.Context(), to.Workflow)
	if err != nil {
		return err
	}
	live, from := 0, []string{}
	for _, x := range versions {
		if x.Number != to.Number && x.Live > 0 {
			live += x.Live
			from = append(from, fmt.Sprint(x.Number))
		}
	}
	d := &confirmData{action: a, Name: name, What: fmt.Sprintf("version %d", to.Number), Problem: problem,
		Of:   fmt.Sprintf("%s; %s of other versions", to.Workflow, plural(live, "live run", "live runs")),
		Back: v.Workflow(to.Workflow), To: v.Workflow(to.Workflow, fmt.Sprintf("/versions/%d/do/%s", to.Number, name))}
	d.Fields = []field{{Name: "from", Label: "Only runs of the version", Kind: "text", Value: v.r.FormValue("from"), Options: from,
		Help: "Empty: of all other versions."}}
	return v.write(status, "confirm", a.Label+" "+to.Workflow, d)
}

// actVersion checks the runs of other versions against a version, or migrates them to it, and shows the results.
func (v *visit) actVersion() error {
	name := v.r.PathValue("action")
	if name != "check" && name != "migrate" {
		return say(http.StatusNotFound, "There is no action %.80q on a version.", name)
	}
	if err := v.needs(actions[name].Scope); err != nil {
		return err
	}
	to, err := v.versionOf()
	if err != nil {
		return err
	}
	d := &reportData{Workflow: to.Workflow, To: to.Number, From: strings.TrimSpace(v.form.Get("from")), Migrated: name == "migrate"}
	opts := host.MigrateOptions{To: to.Number, DryRun: !d.Migrated}
	if d.From != "" {
		n, err := strconv.ParseUint(d.From, 10, 32)
		if err != nil || n == 0 {
			return v.confirmationOfVersion(http.StatusBadRequest, fmt.Sprintf("A version is a number from 1, got %.40q.", d.From))
		}
		opts.From = uint32(n)
	}
	err = v.report(d, opts)
	v.changed = d.Sum.Migrated > 0
	if status := statusOf(err); err != nil && status < http.StatusInternalServerError && status != http.StatusNotFound {
		return v.confirmationOfVersion(status, upper(err.Error())+".")
	}
	if err != nil {
		return err
	}
	return v.write(http.StatusOK, "report", fmt.Sprintf("%s: version %d", to.Workflow, to.Number), d)
}

const (
	// maxVersionChecks is how many of the newest versions a stuck run is checked against, within versionCheckTime.
	maxVersionChecks = 10
	versionCheckTime = 10 * time.Second
)

// versionCheck tells whether the code of a version fits the journal of a stuck run.
type versionCheck struct {
	Number  uint32
	Created time.Time
	Fits    bool
	Why     string // why it does not fit, or was not checked
}

// fits replays a stuck run against the versions of its workflow, newest first. best is the newest version that fits,
// for a retry; 0 if there is none.
func (v *visit) fits(r *host.Run) (list []versionCheck, best uint32) {
	ctx, cancel := context.WithTimeout(v.r.Context(), versionCheckTime)
	defer cancel()
	versions, err := v.ns.Workflows().LiveVersions(ctx, r.Workflow)
	if err != nil {
		return nil, 0
	}
	slices.Reverse(versions)
	for _, x := range versions[:min(len(versions), maxVersionChecks)] {
		c := versionCheck{Number: x.Number, Created: x.Created}
		if x.Number == r.Version {
			c.Why = "the run is stuck under it"
			list = append(list, c)
			continue
		}
		_, err := v.ns.Workflows().Migrate(ctx, r.Workflow, host.MigrateOptions{To: x.Number, Runs: []string{r.ID}, DryRun: true,
			Each: func(got host.RunCheck) error {
				c.Fits, c.Why = got.Outcome == host.CheckCompatible, got.Reason
				return nil
			}})
		if err != nil {
			c.Fits, c.Why = false, "it could not be checked: "+err.Error()
		}
		if c.Fits && best == 0 {
			best = c.Number
		}
		list = append(list, c)
	}
	return list, best
}

// report collects the reports until checkTime is over.
func (v *visit) report(d *reportData, opts host.MigrateOptions) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), checkTime)
	defer cancel()
	var mu sync.Mutex // guards d: reports are sequential, but progress may come concurrently
	total := int64(0)
	opts.Progress = func(_, n int64) {
		mu.Lock()
		defer mu.Unlock()
		total = n
	}
	opts.Each = func(c host.RunCheck) error {
		mu.Lock()
		defer mu.Unlock()
		to := &d.Misfits
		switch {
		case c.Outcome != host.CheckDiverges && c.Outcome != host.CheckNotChecked && len(c.Notes) == 0:
			return nil
		case len(c.Notes) > 0:
			to = &d.Noted
		}
		if len(*to) == maxReports {
			d.Cut = true
			return nil
		}
		*to = append(*to, c)
		return nil
	}
	var err error
	d.Sum, err = v.ns.Workflows().Migrate(ctx, d.Workflow, opts)
	if errors.Is(err, context.DeadlineExceeded) && v.r.Context().Err() == nil {
		d.Total, err = total, nil
	}
	for _, list := range [][]host.RunCheck{d.Misfits, d.Noted} {
		slices.SortFunc(list, func(a, b host.RunCheck) int { return strings.Compare(a.RunID, b.RunID) })
	}
	return err
}
