package limits

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// Bounds of rules.
const (
	// MaxRules bounds the rules of a workflow: each admission checks all of them.
	MaxRules = 8
	// MaxConcurrency bounds the concurrent runs of one rule. It is more than a host has.
	MaxConcurrency = 1_000_000
	// MaxRate bounds the runs of one window. All their instants are stored, so no window ever has more than its rate.
	MaxRate = 10_000
	// MaxWindowMs is the longest window: a year.
	MaxWindowMs = 366 * 24 * 3600 * 1000
	// MaxPath bounds the path of a key, in bytes.
	MaxPath = 128
	// MaxPriority is the greatest priority of a run; -MaxPriority is the least.
	MaxPriority = 100
)

// Rule limits the runs of a workflow: all of them together, or the runs with the same key.
type Rule struct {
	Max      int    `json:"max"`              // maximum number of concurrent runs, or of runs per window
	WindowMs int64  `json:"window,omitempty"` // of a rate; 0 = a limit of concurrency
	Per      string `json:"per,omitempty"`    // path of the key in the input, such as input.customer; empty = all runs
}

// Rules are the rules of one workflow.
type Rules []Rule

// ParseConcurrency reads a rule such as "5" or "5 per input.customer".
func ParseConcurrency(text string) (r Rule, err error) {
	max, err := r.split(text)
	if err == nil {
		r.Max, err = strconv.Atoi(max)
	}
	if err != nil || r.Max < 1 || r.Max > MaxConcurrency {
		return r, abi.Errorf(abi.InvalidArgument, "a concurrency is a number from 1 to %d, as in \"5\" or "+
			"\"5 per input.customer\", got %q", MaxConcurrency, text)
	}
	return r, checkPath(r.Per)
}

// ParseRate reads a rule such as "100/1m" or "100/1m per input.tenant".
func ParseRate(text string) (r Rule, err error) {
	rate, err := r.split(text)
	count, window, ok := strings.Cut(rate, "/")
	if err == nil && ok {
		r.Max, err = strconv.Atoi(count)
		if err == nil {
			r.WindowMs, err = abi.ParseDuration(window)
		}
	}
	switch {
	case err != nil || !ok || r.Max < 1 || r.Max > MaxRate:
		return r, abi.Errorf(abi.InvalidArgument, "a rate is a number from 1 to %d and a window, as in \"100/1m\" or "+
			"\"100/1m per input.tenant\", got %q", MaxRate, text)
	case r.WindowMs < 1 || r.WindowMs > MaxWindowMs:
		return r, abi.Errorf(abi.InvalidArgument, "the window of a rate is from 1ms to %s, got %q",
			abi.FormatDuration(MaxWindowMs), text)
	}
	return r, checkPath(r.Per)
}

// split cuts the path of the key off a text and returns the rest.
func (r *Rule) split(text string) (string, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 1:
		return words[0], nil
	case len(words) == 3 && words[1] == "per":
		r.Per = words[2]
		return words[0], nil
	}
	return "", fmt.Errorf("%d words", len(words))
}

// checkPath returns an error if the path of a key is invalid.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	parts := strings.Split(path, ".")
	if parts[0] != inputRoot || slices.Contains(parts, "") || len(path) > MaxPath {
		return abi.Errorf(abi.InvalidArgument, "a key is input, or a path in it such as input.customer, of at most %d bytes, got %q",
			MaxPath, path)
	}
	return nil
}

// String returns the rule in the form that ParseConcurrency and ParseRate read.
func (r Rule) String() string {
	text := strconv.Itoa(r.Max)
	if r.WindowMs > 0 {
		text += "/" + abi.FormatDuration(r.WindowMs)
	}
	if r.Per != "" {
		text += " per " + r.Per
	}
	return text
}

// name identifies what the rule counts: rules with the same name count the same runs, whatever their maximum.
func (r *Rule) name() string {
	return strconv.FormatInt(r.WindowMs, 10) + " " + r.Per
}

// Check returns an error if there are too many rules, or two count the same runs.
func (l Rules) Check() error {
	if len(l) > MaxRules {
		return abi.Errorf(abi.InvalidArgument, "%d limits, at most %d are allowed", len(l), MaxRules)
	}
	for i := range l {
		for j := range l[:i] {
			if l[j].name() == l[i].name() {
				return abi.Errorf(abi.InvalidArgument, "the limits %q and %q are of the same runs: give one of them", l[j], l[i])
			}
		}
	}
	return nil
}

// Encode returns the rules as stored.
func (l Rules) Encode() []byte {
	if len(l) == 0 {
		return nil
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers and text always encode
	}
	return b
}

// DecodeRules reads what Encode returned.
func DecodeRules(b []byte) (l Rules, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return l, nil
}

// find returns the rule with a name, nil if there is none.
func (l Rules) find(name string) *Rule {
	for i := range l {
		if l[i].name() == name {
			return &l[i]
		}
	}
	return nil
}
