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

// flagTypes are what the tag type says of a flag: how its text is read, and refused before anything is done. A refused text is
// a wrong command line, and the parser names the flag.
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

// A readFunc sets a flag to what its text says.
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

// readDuration checks duration text that is for a server; nothing is none.
func readDuration(text string, to reflect.Value) error {
	to.SetString(text)
	if text == "" {
		return nil
	}
	_, err := milliseconds(text)
	return err
}

// milliseconds reads duration text. Its error is the sentence, without the code that a program would look at.
func milliseconds(text string) (int64, error) {
	ms, err := abi.ParseDuration(text)
	if e, ok := errors.AsType[*abi.Error](err); ok {
		err = errors.New(e.Message)
	}
	return ms, err
}

// readTime reads duration text. 0 needs no unit, and what Go writes is read, too.
func readTime(text string, to reflect.Value) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = wholeDuration(text)
	}
	to.SetInt(int64(d))
	return err
}

// wholeDuration reads duration text that is to be a time.Duration, which has room for 292 years.
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

// byteUnits are those of a number of bytes.
var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// readBytes reads a number of bytes, with a unit or without one, and with a space before the unit as people write it.
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

// parseInstant reads an instant.
func parseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("expected an instant such as 2026-01-31T12:00:00Z, got %.80q", text)
	}
	return t, nil
}

// readInstant checks an instant that is for a server; nothing is none.
func readInstant(text string, to reflect.Value) error {
	to.SetString(text)
	if text == "" {
		return nil
	}
	_, err := parseInstant(text)
	return err
}

// readTimeOf reads an instant.
func readTimeOf(text string, to reflect.Value) error {
	t, err := parseInstant(text)
	to.Set(reflect.ValueOf(t))
	return err
}

// readLevel reads from which level on the log has lines; slog also reads levels between these, such as info+2.
func readLevel(text string, to reflect.Value) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("expected debug, info, warn or error, got %.80q", text)
	}
	to.Set(reflect.ValueOf(level))
	return nil
}

// readLimit reads how many items a page of a list has.
func readLimit(text string, to reflect.Value) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > host.MaxPage {
		return fmt.Errorf("expected a number from 1 to %d, got %.80q", host.MaxPage, text)
	}
	to.SetInt(int64(n))
	return nil
}

// readAttribute adds an attribute. Its value is what follows the first =, with whatever separates lists elsewhere.
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

// readWhere adds a condition of attributes.
func readWhere(text string, to reflect.Value) error {
	if _, err := host.ParseCondition(text); err != nil {
		return err
	}
	to.Set(reflect.Append(to, reflect.ValueOf(text)))
	return nil
}

// refusedCursor says that an answer refuses --cursor: only a server can say what is one.
func refusedCursor(cursor string, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if cursor != "" && ok && errors.Is(e, client.ErrInvalid) && strings.Contains(e.Detail, "cursor") {
		return &exitCode{exitUsage, fmt.Errorf("--cursor: %w", err)}
	}
	return err
}
