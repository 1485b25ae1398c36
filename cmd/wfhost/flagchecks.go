package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// checkedFlags are flag types with values that the command can refuse without asking a server.
var checkedFlags = map[string]readFunc{
	"age":        readAge,
	"keep":       number(0, host.MaxRetentionKeep),
	"iterations": readIterations,
	"quota":      number(0, host.MaxQuota),
	"priority":   number(-host.MaxPriority, host.MaxPriority),
	"any-number": number(0, 1<<63-1),
	"instants":   number(1, host.MaxScheduleNext),
	"bulk":       number(0, mostBulk),
	"number":     number(1, 1<<32-1),
	"parallel":   number(0, host.MaxCheckParallel),
	"cpu":        readCPU,
	"lifetime":   readLifetime,
	"scope":      eachOf(checkScope),
	"run-id":     checked(abi.CheckRunID),
	"update-id":  checked(func(id string) error { return abi.CheckName("update id", id) }),
	"workflow":   eachOf(abi.CheckWorkflow),
	"namespace":  checked(abi.CheckNamespace),
	"engine":     eachOf(checkEngine),
	"slots":      checked(func(s string) error { return (&host.WorkflowLimit{Concurrency: []string{s}}).Check() }),
	"rate":       checked(func(s string) error { return (&host.WorkflowLimit{Rate: []string{s}}).Check() }),
	"http":       eachOf(func(s string) error { return host.CheckGrants(host.AllowHTTP(s)) }),
	"secret":     checked(func(s string) error { return host.CheckGrants(host.AllowSecretText(s)) }),
	"overlap":    checked(checkOverlap),
	"cron":       checked(func(s string) error { return checkSchedule(func(x *host.ScheduleSpec) { x.When = s }) }),
	"zone":       checked(func(s string) error { return checkSchedule(func(x *host.ScheduleSpec) { x.Zone = s }) }),
	"interval":   readInterval,
	"jitter":     delay(func(x *host.ScheduleSpec, d time.Duration) { x.Jitter = d }),
	"catch-up":   delay(func(x *host.ScheduleSpec, d time.Duration) { x.CatchUp = d }),
}

const (
	// mostBulk bounds the runs that one request changes.
	mostBulk = 10_000
	// leastLifetime is the shortest lifetime of a token.
	leastLifetime = time.Second
)

// plainError removes the error code, which is for programs.
func plainError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), abi.InvalidArgument.String()+": "))
}

// number returns a reader of integers within bounds.
func number(least, most int64) readFunc {
	return func(text string, to reflect.Value) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("expected a number from %d to %d, got %.80q", least, most, text)
		}
		if to.CanUint() {
			to.SetUint(uint64(n))
		} else {
			to.SetInt(n)
		}
		return nil
	}
}

// checked returns a reader of checked text, which sets a string or appends to a list.
func checked(check func(string) error) readFunc {
	return func(text string, to reflect.Value) error {
		if text == "" && to.Kind() == reflect.String { // not given
			to.SetString("")
			return nil
		}
		if err := check(text); err != nil {
			return plainError(err)
		}
		if to.Kind() == reflect.Slice {
			to.Set(reflect.Append(to, reflect.ValueOf(text)))
		} else {
			to.SetString(text)
		}
		return nil
	}
}

// eachOf returns a reader that checks each of several comma-separated texts.
func eachOf(check func(string) error) readFunc {
	one := checked(check)
	return func(list string, to reflect.Value) error {
		if to.Kind() != reflect.Slice {
			return one(list, to)
		}
		for text := range strings.SplitSeq(list, ",") {
			if err := one(text, to); err != nil {
				return err
			}
		}
		return nil
	}
}

// readAge checks how long to keep ended runs; empty means forever.
func readAge(text string, to reflect.Value) error {
	if err := readDuration(text, to); err != nil || text == "" {
		return err
	}
	d, err := wholeDuration(text)
	if err == nil && d != 0 && d < host.MinRetention {
		err = fmt.Errorf("ended runs must be kept for at least %v, got %s", host.MinRetention, text)
	}
	return err
}

// readIterations checks how many iterations to keep.
func readIterations(text string, to reflect.Value) error {
	if n, err := strconv.Atoi(text); text != "" && text != allIterations && (err != nil || n < 1 || n > host.MaxIterations) {
		return fmt.Errorf("expected a number from 1 to %d, or %s, got %.80q", host.MaxIterations, allIterations, text)
	}
	to.SetString(text)
	return nil
}

// readLifetime checks the lifetime of a token; empty means unlimited.
func readLifetime(text string, to reflect.Value) error {
	if err := readDuration(text, to); err != nil || text == "" {
		return err
	}
	d, err := wholeDuration(text)
	if err == nil && d < leastLifetime {
		err = fmt.Errorf("a token lasts for at least %v, got %s", leastLifetime, text)
	}
	return err
}

// readCPU checks the compute limit of a replay.
func readCPU(text string, to reflect.Value) error {
	if err := readDuration(text, to); err != nil || text == "" {
		return err
	}
	d, err := wholeDuration(text)
	if err == nil && d > host.MaxCheckCPU {
		err = fmt.Errorf("the replay of a run may compute for at most %v, got %s", host.MaxCheckCPU, text)
	}
	return err
}

// checkSchedule checks a schedule that is valid except for the given field.
func checkSchedule(given func(*host.ScheduleSpec)) error {
	x := host.ScheduleSpec{Workflow: "any", When: "@daily"}
	given(&x)
	return x.Check()
}

// readInterval checks the interval of a schedule.
func readInterval(text string, to reflect.Value) error {
	if err := readDuration(text, to); err != nil || text == "" {
		return err
	}
	return plainError(checkSchedule(func(x *host.ScheduleSpec) { x.When = "@every " + text }))
}

// delay returns a reader of a schedule's duration; empty means the default.
func delay(set func(*host.ScheduleSpec, time.Duration)) readFunc {
	return func(text string, to reflect.Value) error {
		if err := readDuration(text, to); err != nil || text == "" {
			return err
		}
		d, err := wholeDuration(text)
		if err == nil {
			err = plainError(checkSchedule(func(x *host.ScheduleSpec) { set(x, d) }))
		}
		return err
	}
}

func checkOverlap(policy string) error {
	return checkSchedule(func(x *host.ScheduleSpec) { x.Overlap = host.Overlap(policy) })
}

func checkScope(name string) error {
	if slices.Contains(host.Scopes, host.Scope(name)) {
		return nil
	}
	var names []string
	for _, s := range host.Scopes {
		names = append(names, string(s))
	}
	return fmt.Errorf("a scope is one of %s, got %.80q", strings.Join(names, ", "), name)
}

func checkEngine(name string) error {
	if slices.Contains(host.Engines(), name) {
		return nil
	}
	return fmt.Errorf("this program has the engines %s, got %.80q", strings.Join(host.Engines(), ", "), name)
}

// checkAttributes returns an error if the attributes of --attr are invalid.
func checkAttributes(attributes map[string]string) error {
	for k, v := range attributes {
		if err := abi.CheckAttribute(k, v); err != nil {
			return &exitCode{exitUsage, fmt.Errorf("--attr: %w", plainError(err))}
		}
	}
	return nil
}

// checkMemo returns an error if the memo of --memo is invalid.
func checkMemo(memo string) error {
	if _, err := abi.CheckMemo([]byte(memo)); memo != "" && err != nil {
		return &exitCode{exitUsage, fmt.Errorf("--memo: %s", strings.TrimPrefix(err.Error(), abi.TooLarge.String()+": "))}
	}
	return nil
}
