package main

import (
	"regexp"
	"slices"
	"time"
)

// measurement is a command that both builds run in turns.
type measurement struct {
	name    string
	args    []string // of wfhost; it prints one JSON object
	figures []figure
}

// figure is a number of the JSON object.
type figure struct {
	key   string // a name with the unit last, as `wfhost bench` prints it
	label string
	more  bool // more is better
}

func (m *measurement) bench() bool { return m.args[0] == "bench" }

// plan returns the measurements whose names match only. span is how long those with a duration last.
func plan(span time.Duration, only *regexp.Regexp) (list []measurement) {
	all := append(append(steps(), wakes()...), rest(span)...)
	for _, m := range all {
		if !only.MatchString(m.name) {
			continue
		}
		if slices.Contains(m.args, spanArg) {
			m.args = append(slices.DeleteFunc(m.args, func(a string) bool { return a == spanArg }), "--for", span.String())
		}
		list = append(list, m)
	}
	return list
}

// hosted returns a benchmark of a host with Go's own settings, as a program has them that embeds it.
func hosted(name string, figures []figure, args ...string) measurement {
	return measurement{name, append([]string{"bench"}, append(args, "--format", "json", "--go-settings")...), figures}
}

func steps() (list []measurement) {
	for _, guest := range []string{"go", "ts", "small"} {
		for _, runs := range []string{"1", "16", "256"} {
			list = append(list, hosted("steps-"+guest+"-"+runs, []figure{{"stepsPerS", "steps in a second", true},
				{"cpuPerStepUs", "CPU time of a step", false}, {"stepP50Us", "step, p50", false}, {"stepP99Us", "step, p99", false}},
				"steps", "--guest", guest, "--runs", runs, spanArg))
		}
	}
	return list
}

func wakes() (list []measurement) {
	wake := []figure{{"wakesPerS", "wakes in a second", true}, {"cpuPerWakeUs", "CPU time of a wake", false},
		{"wakeP50Us", "wake, p50", false}, {"wakeP99Us", "wake, p99", false}}
	var replay []figure
	for _, calls := range []string{"1000", "10000"} {
		replay = append(replay, figure{"calls" + calls + "WakeP50Us", "wake after " + calls + " calls, p50", false},
			figure{"calls" + calls + "ReplayP50Us", "replay of " + calls + " calls, p50", false})
	}
	for _, guest := range []string{"go", "ts"} {
		list = append(list, hosted("wake-"+guest, wake, "wake", "--guest", guest, "--due", "256", spanArg),
			hosted("wake-step-"+guest, wake, "wake", "--guest", guest, "--due", "256", "--step", spanArg),
			hosted("replay-"+guest, replay, "replay", "--guest", guest, "--lengths", "1000,10000", "--n", "20"))
	}
	late := []figure{{"lateP50Us", "lateness, p50", false}, {"lateP99Us", "lateness, p99", false},
		{"peakRssBytes", "most memory", false}}
	for _, rate := range []string{"1000", "3000"} {
		list = append(list, hosted("late-"+rate, late, "late", "--guest", "go", "--step", "--rate", rate, spanArg))
	}
	return append(list, hosted("storm", []figure{{"allMs", "until all have woken", false}, {"resumeP99Us", "wake, p99", false},
		{"rssAsleepBytes", "memory asleep", false}, {"peakRssBytes", "most memory", false}},
		"storm", "--guest", "go", "--n", "20000", "--step"))
}

func rest(span time.Duration) []measurement {
	return []measurement{
		hosted("start", []figure{{"startP50Us", "start, p50", false}, {"resultP50Us", "start to result, p50", false},
			{"resultP99Us", "start to result, p99", false}}, "start", "--guest", "go", "--rate", "200", spanArg),
		hosted("signal", []figure{{"acceptP50Us", "signal until durable, p50", false},
			{"resumeP50Us", "signal until the run went on, p50", false},
			{"resumeP99Us", "signal until the run went on, p99", false}}, "signal", "--guest", "go", "--rate", "200", spanArg),
		hosted("sleepers", []figure{{"rssUploadedBytes", "memory with the workflow uploaded", false},
			{"rssCollectedBytes", "memory asleep", false}, {"diskPerRunBytes", "disk of a sleeping run", false},
			{"firstWakeP50Us", "open to first wake, p50", false}},
			"sleepers", "--guest", "go", "--n", "10000", "--for", min(span, 2*time.Second).String()),
		{"list", []string{"bench", "list", "--n", "100000", "--format", "json"}, []figure{
			{"cpuPerPageUs", "CPU time of a page", false}, {"countsP50Us", "counts, p50", false},
			{"timersP50Us", "timers, p50", false}}},
		{"upload", []string{"build", moduleArg, "--format", "json"}, []figure{
			{"wallMs", "compiling and describing a Go workflow", false}, {"cpuMs", "CPU time of that", false}}},
	}
}

// spanArg stands for the duration, and moduleArg for the path of a compiled Go workflow.
const (
	spanArg   = "SPAN"
	moduleArg = "MODULE"
)
