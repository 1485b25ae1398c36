package main

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
)

// mayBeEmpty are what may be given as nothing, which is then none: payloads, texts for people, where a list begins, what is
// searched, and by their types, instants, durations and the like. --server has a sentence of its own.
var mayBeEmpty = []string{"payload", "input", "note", "memo", "topic", "cursor", "server",
	"instant", "duration", "age", "lifetime", "cpu", "cron", "zone", "overlap", "interval", "jitter", "catch-up"}

// refuseEmpty refuses names and folders that are given as nothing, as a script does whose variable is not set: without its
// name, wake would end all sleeps, and without its id, each repetition of a start would be another run.
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
