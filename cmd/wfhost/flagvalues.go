package main

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
)

// flagTypes are the flag types that the tag type refers to. They parse a flag's text and refuse it before any action. The
// parser reports a refused text as a usage error that names the flag.
func flagTypes() (opts []kong.Option) {
	for name, read := range map[string]readFunc{"duration": readDuration, "bytes": readBytes, "instant": readInstant,
		"limit": readLimit, "where": readWhere, "attribute": readAttribute} {
		opts = append(opts, kong.NamedMapper(name, mapper(name, read)))
	}
	for name, read := range checkedFlags {
		opts = append(opts, kong.NamedMapper(name, mapper(name, read)))
	}
	return append(opts, kong.TypeMapper(reflect.TypeFor[time.Duration](), mapper("duration", readTime)),
		kong.TypeMapper(reflect.TypeFor[time.Time](), mapper("instant", readTimeOf)),
		kong.TypeMapper(reflect.TypeFor[slog.Level](), mapper("level", readLevel)))
}

// A readFunc parses the text of a flag into its value.
type readFunc func(text string, to reflect.Value) error

func mapper(name string, read readFunc) kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, to reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto(name, &text); err != nil {
			return err
		}
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		return read(text, to)
	})
}

// readDuration checks duration text for a server; empty means not given.
func readDuration(text string, to reflect.Value) error {
	to.SetString(text)
	if text == "" {
		return nil
	}
	_, err := milliseconds(text)
	return err
}

// milliseconds parses duration text. Its error omits the code, which is for programs.
func milliseconds(text string) (int64, error) {
	ms, err := abi.ParseDuration(text)
	if e, ok := errors.AsType[*abi.Error](err); ok {
		err = errors.New(e.Message)
	}
	return ms, err
}

// readTime parses duration text, 0 without a unit, and Go's format.
func readTime(text string, to reflect.Value) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = wholeDuration(text)
	}
	to.SetInt(int64(d))
	return err
}

// wholeDuration parses duration text as a time.Duration, which is limited to 292 years.
func wholeDuration(text string) (time.Duration, error) {
	ms, err := milliseconds(text)
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	if err == nil && ms > longest {
		err = fmt.Errorf("must be less than 292 years, got %s", text)
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// byteUnits are the units of byte counts.
var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// readBytes parses a number of bytes with an optional unit, which a space may precede.
func readBytes(text string, to reflect.Value) error {
	n, err := strconv.ParseInt(text, 0, 64)
	if err == nil {
		to.SetInt(n)
		return nil
	}
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(number, " "), 10, 64)
		if err != nil || n*u.size/u.size != n {
			break
		}
		to.SetInt(n * u.size)
		return nil
	}
	return fmt.Errorf("expected a number of bytes, such as 134217728 or 128MiB (units B KiB MiB GiB), got %.80q", text)
}

// parseInstant parses an instant.
func parseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("expected an instant such as 2026-01-31T12:00:00Z, got %.80q", text)
	}
	return t, nil
}

// readInstant checks an instant for a server; empty means not given.
func readInstant(text string, to reflect.Value) error {
	to.SetString(text)
	if text == "" {
		return nil
	}
	_, err := parseInstant(text)
	return err
}

// readTimeOf parses an instant.
func readTimeOf(text string, to reflect.Value) error {
	t, err := parseInstant(text)
	to.Set(reflect.ValueOf(t))
	return err
}

// readLevel parses the minimum level of the log. slog also accepts levels such as info+2.
func readLevel(text string, to reflect.Value) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("expected debug, info, warn or error, got %.80q", text)
	}
	to.Set(reflect.ValueOf(level))
	return nil
}

// readLimit parses the size of a page.
func readLimit(text string, to reflect.Value) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > host.MaxPage {
		return fmt.Errorf("expected a number from 1 to %d, got %.80q", host.MaxPage, text)
	}
	to.SetInt(int64(n))
	return nil
}

// readAttribute adds an attribute. Its value is everything after the first =, including separators of lists.
func readAttribute(text string, to reflect.Value) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("expected KEY=VALUE, got %.80q", text)
	}
	if to.IsNil() {
		to.Set(reflect.MakeMap(to.Type()))
	}
	k := reflect.ValueOf(key)
	if to.MapIndex(k).IsValid() {
		return fmt.Errorf("%.80q is given twice, and a run has one value of it", key)
	}
	to.SetMapIndex(k, reflect.ValueOf(value))
	return nil
}

// readWhere adds a condition on attributes.
func readWhere(text string, to reflect.Value) error {
	if _, err := host.ParseCondition(text); err != nil {
		return err
	}
	to.Set(reflect.Append(to, reflect.ValueOf(text)))
	return nil
}

// refusedCursor turns the server's refusal of --cursor into a usage error. Only a server can check a cursor.
func refusedCursor(cursor string, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if cursor != "" && ok && errors.Is(e, client.ErrInvalid) && strings.Contains(e.Detail, "cursor") {
		return &exitCode{exitUsage, fmt.Errorf("--cursor: %w", err)}
	}
	return err
}
