//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/wfhost/wfhost/bench/peers/report"
	"github.com/wfhost/wfhost/bench/peers/workload"
)

// session is what an engine does between being opened, with empty data, and being closed.
type session struct {
	name  string
	limit time.Duration // the longest that it may take
	parts []part
	large bool // -large says which engines take part
}

// part is one workload of a session.
type part struct {
	name string
	workload.Workload
}

// The names of the workloads, which connect the plan with the rows of the table.
const (
	starts      = "W4"
	stepsAlone  = "W1, 1 at a time"
	steps16     = "W1, 16 at a time"
	steps256    = "W1, 256 at a time"
	sleep2000   = "W2, 2,000"
	sleep20000  = "W2, 20,000"
	paced1000   = "W2, 5,000 at 1,000/s"
	paced3000   = "W2, 5,000 at 3,000/s"
	history1000 = "W3, 1,000"
	history5000 = "W3, 5,000"
	bare        = "harness" // the memory of the harness alone
	disk        = "disk"    // what `wfhost bench disk` measures
)

// length is the number of steps of a workflow of W1.
const length = 50

// plan lists the sessions. The quick ones are part of the full ones, with shorter times.
func plan(quick bool) []session {
	window, warmUp, single := 10*time.Second, 2*time.Second, 5*time.Second
	if quick {
		window, warmUp, single = 2*time.Second, time.Second, time.Second
	}
	steps := func(atATime int, d time.Duration) workload.Steps {
		return workload.Steps{Length: length, AtATime: atATime, WarmUp: warmUp, For: d}
	}
	// A sleep is longer than the starts take on two cores, so that all are asleep at a time. That of the 20,000 is longer
	// than a minute as well, after which Restate begins to suspend them by its default.
	night := func(n, rate int, sleep time.Duration) workload.Sleepers {
		return workload.Sleepers{N: n, Rate: rate, Sleep: sleep}
	}
	history := func(n, times int) workload.History {
		return workload.History{Steps: n, Times: times, Sleep: time.Second}
	}
	const minutes = 5 * time.Minute
	if quick {
		return []session{
			{name: "steps", limit: minutes, parts: []part{{starts, workload.Starts{For: single}}, {stepsAlone, steps(1, single)},
				{steps16, steps(16, window)}, {steps256, steps(256, window)}, {history1000, history(1000, 1)}}},
			{name: "sleepers", limit: minutes, parts: []part{{sleep2000, night(2000, 0, 8*time.Second)}}},
		}
	}
	return []session{
		{name: "steps", limit: minutes, parts: []part{{starts, workload.Starts{For: single}}, {stepsAlone, steps(1, single)},
			{steps16, steps(16, window)}, {steps256, steps(256, window)}}},
		{name: "sleepers", limit: minutes, parts: []part{{sleep2000, night(2000, 0, 10*time.Second)}}},
		{name: "paced-1000", limit: minutes, parts: []part{{paced1000, night(5000, 1000, 15*time.Second)}}},
		{name: "paced-3000", limit: minutes, parts: []part{{paced3000, night(5000, 3000, 15*time.Second)}}},
		{name: "history", limit: minutes, parts: []part{{history1000, history(1000, 3)}, {history5000, history(5000, 2)}}},
		{name: "large", limit: 2 * minutes, large: true, parts: []part{{sleep20000, night(20000, 0, 90*time.Second)}}},
	}
}

// rows are the lines of the table.
func rows() []report.Row {
	list := []report.Row{
		{Label: "W1, 16 at a time: steps", Workload: steps16, Figure: "stepsPerS", MoreIsBetter: true},
		{Label: "W1, 16 at a time: CPU of a step", Workload: steps16, Figure: "cpuPerStepUs"},
		{Label: "W1, 256 at a time: steps", Workload: steps256, Figure: "stepsPerS", MoreIsBetter: true},
		{Label: "W1, 256 at a time: CPU of a step", Workload: steps256, Figure: "cpuPerStepUs"},
		{Label: "W1, one alone: step to step, p50", Workload: stepsAlone, Figure: "stepP50Ms"},
		{Label: "W1, one alone: p99", Workload: stepsAlone, Figure: "stepP99Ms"},
		{Label: "W4, start to result, p50", Workload: starts, Figure: "resultP50Ms"},
		{Label: "W4, p99", Workload: starts, Figure: "resultP99Ms"},
		{Label: "Memory, workflow uploaded, nothing running", Workload: sleep2000, Figure: "baseBytes"},
	}
	for _, w := range []string{sleep2000, sleep20000} {
		list = append(list,
			report.Row{Label: w + " at full speed: starts", Workload: w, Figure: "startsPerS", MoreIsBetter: true},
			report.Row{Label: w + ": lateness, p50", Workload: w, Figure: "lateP50Ms"},
			report.Row{Label: w + ": lateness, p99", Workload: w, Figure: "lateP99Ms"},
			report.Row{Label: w + ": memory asleep", Workload: w, Figure: "asleepBytes"},
			report.Row{Label: w + ": memory at the wake", Workload: w, Figure: "peakBytes"},
			report.Row{Label: w + ": CPU of a workflow", Workload: w, Figure: "cpuPerWorkflowUs"})
	}
	for _, w := range []string{paced1000, paced3000} {
		list = append(list,
			report.Row{Label: w + ": starts reached", Workload: w, Figure: "startsPerS", MoreIsBetter: true},
			report.Row{Label: w + ": lateness, p50", Workload: w, Figure: "lateP50Ms"},
			report.Row{Label: w + ": lateness, p99", Workload: w, Figure: "lateP99Ms"},
			report.Row{Label: w + ": memory at the wake", Workload: w, Figure: "peakBytes"},
			report.Row{Label: w + ": CPU of a workflow", Workload: w, Figure: "cpuPerWorkflowUs"})
	}
	for _, w := range []string{history1000, history5000} {
		list = append(list, report.Row{Label: w + " steps behind it: due to next step", Workload: w, Figure: "nextStepMs"})
	}
	return list
}

// find returns the session of a name.
func find(sessions []session, name string) (session, error) {
	for _, s := range sessions {
		if s.name == name {
			return s, nil
		}
	}
	return session{}, fmt.Errorf("there is no session %q", name)
}
