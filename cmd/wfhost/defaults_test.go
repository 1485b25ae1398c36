package main

import (
	"os"
	"reflect"
	"regexp"
	"testing"
)

// TestDefaultsAreDocumented compares the memory limits of serve with docs/operate/server.md, and with the fields of
// host.Config in docs/operate/memory.md. Package host compares the latter with its own defaults.
func TestDefaultsAreDocumented(t *testing.T) {
	defaults, n := map[string]string{}, 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[serveCmd]()) {
		defaults[f.Name] = f.Tag.Get("default")
	}
	words := regexp.MustCompile(`-(\w)`)
	for file, form := range map[string]string{"server": "`-(-[a-z-]+)` (?:\\(|\\| )(\\d+) (M|G)iB", "memory": "`(\\w+Bytes)` \\((\\d+) (M|G)iB\\)"} {
		text, err := os.ReadFile("../../docs/operate/" + file + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1) {
			name := words.ReplaceAllStringFunc(m[1], func(s string) string { return string(s[1] - 'a' + 'A') })
			n++
			if defaults[name] != m[2]+m[3]+"iB" {
				t.Errorf("docs/operate/%s.md says that %s is %s %siB, serve has %q", file, m[1], m[2], m[3], defaults[name])
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d defaults were found", n)
	}
}
