package main

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
)

// mayBeEmpty lists the names and types of arguments and flags that may be empty, which means not given. --server has its own
// error.
var mayBeEmpty = []string{"payload", "input", "note", "memo", "topic", "cursor", "server",
	"instant", "duration", "age", "lifetime", "cpu", "cron", "zone", "overlap", "interval", "jitter", "catch-up"}

// refuseEmpty refuses empty names and folders, as a script passes them for an unset variable. With an empty name, wake would
// end all sleeps; with an empty id, each repetition of a start would start another run.
func refuseEmpty(k *kong.Context) error {
	for _, p := range k.Path {
		v := p.Positional
		if p.Flag != nil {
			v = p.Flag.Value
		}
		if v == nil || v.Target.Kind() != reflect.String || v.Target.String() != "" ||
			slices.Contains(mayBeEmpty, v.Name) || v.Tag != nil && slices.Contains(mayBeEmpty, v.Tag.Type) {
			continue
		}
		name := "<" + v.Name + ">"
		if p.Flag != nil {
			name = "--" + v.Name
		}
		return fmt.Errorf("%s must not be empty, got \"\"", name)
	}
	return nil
}
