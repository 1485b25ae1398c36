package abi

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
)

// Values of StepOptions.Backoff.
const (
	BackoffFixed       = "fixed"       // always the delay
	BackoffLinear      = "linear"      // delay × number of failures
	BackoffExponential = "exponential" // delay × factor^(failures-1)
)

// Defaults of step options.
const (
	DefaultAttempts   = 3
	DefaultDelayMs    = 1 * msPerSecond
	DefaultFactor     = 2
	DefaultMaxDelayMs = 5 * msPerMinute
	DefaultTimeoutMs  = 10 * msPerMinute
)

// StepOptions says how a step is attempted. The zero value is not the default: ParseStepOptions(nil) gives that.
type StepOptions struct {
	Attempts     int     // all tries, the first included; 0 = no limit
	DelayMs      int64   // before the second attempt
	Backoff      string  // how the delay grows: one of the Backoff constants
	Factor       float64 // of the exponential back-off, at least 1
	MaxDelayMs   int64   // upper bound of one delay; the default, or DelayMs if that is longer
	MaxElapsedMs int64   // no attempt begins later than this after the call; 0 = no bound
	Jitter       float64 // 0 to 1: the share of a delay that chance may take away
	TimeoutMs    int64   // of one attempt, 1 to MaxStepTimeoutMs
	AtMostOnce   bool    // an attempt whose outcome is unknown is never repeated
	Undoes       string  // the step or child whose effect the step undoes, UndoesUnnamed if that has no name; empty = none
}

// UndoesUnnamed is the option undoes of a step that undoes something that its workflow cannot name.
const UndoesUnnamed = "*"

// ParseStepOptions reads the options object of step_do, step_start and step_begin. Zero length gives the
// defaults, and so does each field that is absent. Durations are duration text; "" is none for max_elapsed. An
// unknown or repeated field, a wrong type, a value out of range and anything after the object are an *Error of
// code InvalidArgument that names the field; the options are the zero value then.
func ParseStepOptions(text []byte) (StepOptions, error) {
	o := StepOptions{Attempts: DefaultAttempts, DelayMs: DefaultDelayMs, Backoff: BackoffExponential,
		Factor: DefaultFactor, MaxDelayMs: DefaultMaxDelayMs, TimeoutMs: DefaultTimeoutMs}
	if len(text) == 0 { // most steps: nothing to allocate
		return o, nil
	}
	return parseStepObject(text, o)
}

func parseStepObject(text []byte, o StepOptions) (StepOptions, error) {
	bounded := false
	if err := parseObject("step option", text, func(field string, value []byte) error {
		bounded = bounded || field == "max_delay"
		return o.set(field, value)
	}); err != nil {
		return StepOptions{}, err
	}
	if !bounded { // a delay of an hour that was asked for is not cut to the default bound
		o.MaxDelayMs = max(o.MaxDelayMs, o.DelayMs)
	}
	return o, nil
}

func (o *StepOptions) set(field string, value []byte) error {
	switch field {
	case "attempts":
		return decodeIn(value, &o.Attempts, 0, math.MaxInt32, "a whole number from 0 (no limit) to 2147483647")
	case "delay":
		return decodeDuration(value, &o.DelayMs, 0, MaxUnixMs)
	case "backoff":
		return decodeWord(value, &o.Backoff, BackoffFixed, BackoffLinear, BackoffExponential)
	case "factor":
		return decodeIn(value, &o.Factor, 1, math.MaxInt32, "a number from 1 to 2147483647")
	case "max_delay":
		return decodeDuration(value, &o.MaxDelayMs, 0, MaxUnixMs)
	case "max_elapsed":
		return decodeOptionalTimeout(value, &o.MaxElapsedMs)
	case "jitter":
		return decodeIn(value, &o.Jitter, 0, 1, "a number from 0 to 1")
	case "timeout":
		return decodeDuration(value, &o.TimeoutMs, 1, MaxStepTimeoutMs)
	case "at_most_once":
		return decode(value, &o.AtMostOnce, "true or false")
	case "undoes":
		return decodeUndoes(value, &o.Undoes)
	}
	return errUnknownField
}

// decodeUndoes reads the name of a step or child, or nothing.
func decodeUndoes(value []byte, to *string) error {
	if err := decode(value, to, "the name of a step or child"); err != nil || *to == "" {
		return err
	}
	return refusal(CheckName("step that is undone", *to))
}

// JSON gives the options in canonical form: every field, undoes only if it is set, in the order of the documentation, with
// canonical
// duration text. ParseStepOptions reads it back to the same options, if they are ones that it could have given;
// of others, such as a factor that is no number, the answer may be nil.
func (o StepOptions) JSON() []byte {
	maxElapsed := ""
	if o.MaxElapsedMs > 0 {
		maxElapsed = FormatDuration(o.MaxElapsedMs)
	}
	b, err := json.Marshal(struct {
		Attempts   int     `json:"attempts"`
		Delay      string  `json:"delay"`
		Backoff    string  `json:"backoff"`
		Factor     float64 `json:"factor"`
		MaxDelay   string  `json:"max_delay"`
		MaxElapsed string  `json:"max_elapsed"`
		Jitter     float64 `json:"jitter"`
		Timeout    string  `json:"timeout"`
		AtMostOnce bool    `json:"at_most_once"`
		Undoes     string  `json:"undoes,omitempty"`
	}{o.Attempts, FormatDuration(o.DelayMs), o.Backoff, o.Factor, FormatDuration(o.MaxDelayMs), maxElapsed, o.Jitter,
		FormatDuration(o.TimeoutMs), o.AtMostOnce, o.Undoes})
	if err != nil {
		return nil
	}
	return b
}

// RetryDelayMs gives the delay in milliseconds after the failed-th failure, counted from 1: the back-off's, not
// above MaxDelayMs, rounded to the nearest millisecond. unit is a random number in [0, 1) that says how much of
// the jitter is used: the delay is multiplied by 1 - Jitter × unit, so that chance only ever shortens it. There
// is no overflow, however many failures there were.
func (o StepOptions) RetryDelayMs(failed int, unit float64) int64 {
	if o.DelayMs <= 0 { // zero times infinity is not a number
		return 0
	}
	failed = max(failed, 1)
	d := float64(o.DelayMs)
	switch o.Backoff {
	case BackoffLinear:
		d *= float64(failed)
	case BackoffExponential:
		d *= math.Pow(o.Factor, float64(failed-1)) // may be infinite, which the bound ends
	}
	d = math.Min(d, float64(o.MaxDelayMs))
	return int64(math.Round(d * (1 - o.Jitter*unit)))
}

// Values of ChildOptions.OnEnd: what happens to a child that is alive when its parent ends.
const (
	OnEndCancel    = "cancel"    // it is asked to cancel; the default
	OnEndTerminate = "terminate" // it ends at once
	OnEndAbandon   = "abandon"   // it goes on
)

// ChildOptions says how a child run is started.
type ChildOptions struct {
	ID         string            // the child's run id; empty = <parent>.<seq of the call>
	Version    uint32            // of the child's workflow; 0 = see Latest
	Latest     bool              // start the latest version; else, if Version is 0, the one of the parent's upload
	OnEnd      string            // one of the OnEnd constants
	TimeoutMs  int64             // of the whole child run; 0 = none
	Attributes map[string]string // searchable, by name; nil if none are given
	Memo       []byte            // JSON without white space that people see with the run; nil if none is given
	Undoes     string            // as of StepOptions
}

// ParseChildOptions reads the options object of child_run and child_start, with the rules of ParseStepOptions.
// The fields are id, version (a number, or "latest"), on_end, timeout (duration text, "" = none), attributes (an object of
// strings, whose names follow CheckName) and memo (any JSON but null).
func ParseChildOptions(text []byte) (ChildOptions, error) {
	o := ChildOptions{OnEnd: OnEndCancel}
	if err := parseObject("child option", text, o.set); err != nil {
		return ChildOptions{}, err
	}
	return o, nil
}

func (o *ChildOptions) set(field string, value []byte) error {
	switch field {
	case "id":
		if err := decode(value, &o.ID, "a run id"); err != nil {
			return err
		}
		return refusal(CheckRunID(o.ID))
	case "version":
		o.Version, o.Latest = 0, string(value) == `"latest"`
		if o.Latest {
			return nil
		}
		err := decodeIn(value, &o.Version, 0, math.MaxUint32, `"latest", or a whole number from 0 (the latest) to 4294967295`)
		o.Latest = err == nil && o.Version == 0
		return err
	case "on_end":
		return decodeWord(value, &o.OnEnd, OnEndCancel, OnEndTerminate, OnEndAbandon)
	case "timeout":
		return decodeOptionalTimeout(value, &o.TimeoutMs)
	case "attributes":
		if value[0] != '{' {
			return mustBe("an object of strings", value)
		}
		o.Attributes = map[string]string{}
		return refusal(parseObject("attribute", value, o.setAttribute))
	case "memo":
		if string(value) == "null" {
			return mustBe("JSON that says something", value)
		}
		memo, err := CheckMemo(value)
		o.Memo = memo
		return refusal(err)
	case "undoes":
		return decodeUndoes(value, &o.Undoes)
	}
	return errUnknownField
}

// Check says whether a child of this name may have the attributes. The error is an *Error.
func (o *ChildOptions) Check(name string) error {
	for _, k := range slices.Sorted(maps.Keys(o.Attributes)) {
		if err := CheckAttribute(k, o.Attributes[k]); err != nil {
			return err
		}
	}
	if len(o.Attributes) > MaxAttributes {
		return Errorf(Limit, "child %q has %d attributes, the limit is %d", name, len(o.Attributes), MaxAttributes)
	}
	return nil
}

func (o *ChildOptions) setAttribute(name string, value []byte) error {
	if err := CheckName("attribute name", name); err != nil {
		return refusal(err)
	}
	var text string
	if err := decode(value, &text, "a string"); err != nil {
		return err
	}
	o.Attributes[name] = text
	return nil
}

// refusal makes an *Error part of a sentence about the field in which it was found.
func refusal(err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return errors.New("is refused: " + refused.Message)
	}
	return err
}

// Values of ContinueOptions.Version.
const (
	ContinuePinned = "pinned" // the next iteration runs the same module; the default
	ContinueLatest = "latest" // it runs the latest version of its workflow
)

// ContinueOptions says how continue_as_new begins the next iteration.
type ContinueOptions struct {
	Version string // one of the Continue constants
}

// ParseContinueOptions reads the options object of continue_as_new, with the rules of ParseStepOptions. Its only
// field is version.
func ParseContinueOptions(text []byte) (ContinueOptions, error) {
	o := ContinueOptions{Version: ContinuePinned}
	err := parseObject("continue option", text, func(field string, value []byte) error {
		if field == "version" {
			return decodeWord(value, &o.Version, ContinuePinned, ContinueLatest)
		}
		return errUnknownField
	})
	if err != nil {
		return ContinueOptions{}, err
	}
	return o, nil
}

// Values of cancel_policy: what a cancel of the run does.
const (
	CancelFinal       = 0 // the run ends where it waits, and no guest code runs any more; the default
	CancelCooperative = 1 // the workflow is told, once, and ends by itself
)

// HookOptions says what whoever delivers to a token is answered.
type HookOptions struct {
	Status      int    // of HTTP, 200 to 299; the default is 202
	ContentType string // of the body
	Body        string // the default is empty
}

// DefaultHookStatus says that what was delivered is durable, and that nobody has looked at it yet.
const DefaultHookStatus = 202

// MaxHookBodyBytes bounds the body that a hook answers with: it is kept in the journal.
const MaxHookBodyBytes = 4096

// ParseHookOptions reads the options object of hook_start, with the rules of ParseStepOptions. The fields are status,
// content_type and body.
func ParseHookOptions(text []byte) (HookOptions, error) {
	o := HookOptions{Status: DefaultHookStatus}
	err := parseObject("hook option", text, func(field string, value []byte) error {
		switch field {
		case "status":
			return decodeIn(value, &o.Status, 200, 299, "a status of HTTP from 200 to 299")
		case "content_type":
			return decode(value, &o.ContentType, "a content type")
		case "body":
			return decode(value, &o.Body, "text")
		}
		return errUnknownField
	})
	if err == nil && len(o.Body) > MaxHookBodyBytes {
		err = Errorf(TooLarge, "the body of a hook's answer has %d bytes, the limit is %d", len(o.Body), MaxHookBodyBytes)
	}
	if err != nil {
		return HookOptions{}, err
	}
	return o, nil
}
