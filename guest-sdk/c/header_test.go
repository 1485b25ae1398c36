package c_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestHeader compares the header with the ABI: every function is there once, with as many values as it takes, and every code with
// its name.
func TestHeader(t *testing.T) {
	b, err := os.ReadFile("workflow.h")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)WF_IMPORT\("(\w+)"\)[^(]*\(([^)]*)\);`).FindAllStringSubmatch(string(b), -1) {
		sig, ok := abi.Functions[m[1]]
		if !ok {
			t.Errorf("%s is no function of the ABI", m[1])
		}
		n := 0
		for _, p := range regexp.MustCompile(`,`).Split(m[2], -1) {
			if p != "void" {
				n++
			}
		}
		if n != len(sig.Params) {
			t.Errorf("%s takes %d values in the header, the ABI says %d", m[1], n, len(sig.Params))
		}
		found[m[1]]++
	}
	for name := range abi.Functions {
		if found[name] != 1 {
			t.Errorf("%s is %d times in the header", name, found[name])
		}
	}
	codes := regexp.MustCompile(`WF_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(string(b), -1)
	_, table, _ := strings.Cut(string(b), "wf_code_name(int64_t code) {")
	table, _, _ = strings.Cut(table, ";")
	names := regexp.MustCompile(`"([A-Z_]+)"`).FindAllStringSubmatch(table, -1)
	if len(names) != int(abi.Freeze)+1 {
		t.Fatalf("wf_code_name knows %d codes", len(names))
	}
	for n := abi.OK; n <= abi.Freeze; n++ {
		if !slices.ContainsFunc(codes, func(m []string) bool { return m[1] == n.String() && m[2] == fmt.Sprint(int(n)) }) {
			t.Errorf("the header has no code %s = %d", n, n)
		}
		if got := names[n][1]; got != n.String() {
			t.Errorf("the name of code %d is %s in the header, the ABI says %s", n, got, n)
		}
	}
}

// TestField looks for fields of objects, in a workflow.
func TestField(t *testing.T) {
	wasm, err := toolchain.Compile(t.Context(), "testdata/field")
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		t.Skipf("SKIPPED: %v; fields of JSON were not looked for", missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	h := hosttest.New(t)
	if _, err := h.Upload(t.Context(), "field", wasm); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ key, json, want string }{
		{"a", `{"a":1}`, `1`}, {"b", `{"a":1}`, ``}, {"b", ` { "a" : [ 1 , {"b":2} ] , "b" : -3.5e7 } `, `-3.5e7`},
		{"a", `{"a":{"b":[1,"}"]},"c":0}`, `{"b":[1,"}"]}`}, {"b", `{"a":{"b":1}}`, ``}, {"c", `{"a":{"b":1},"c":null}`, `null`},
		{"a", `{"b":"a","a":"x\"y,}"}`, `"x\"y,}"`}, {"a", `{"b":"\\","a":true}`, `true`}, {"a", `{"ab":1,"xa":2}`, ``},
		{"", `{"a":1,"":2}`, `2`}, {"a", `{}`, ``}, {"a", ``, ``}, {"b", `[{"b":1}]`, ``}, {"a", `"a"`, ``},
		{"a", `{"a"`, ``}, {"a", `{"a":`, ``}, {"a", `{"a":}`, ``}, {"a", `{"a":"x`, `"x`}, {"a", `{"a":"x\`, `"x\`},
		{"a", `{"a":[1`, `[1`}, {"a", `{"b":]`, ``}, {"name", `{"name":"é"}`, `"é"`},
	} {
		id := fmt.Sprint("field-", i)
		if _, err := h.StartRaw(t.Context(), "field", []byte(c.key+"\n"+c.json), host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		h.Finish(id)
		if got, err := h.ResultRaw(t.Context(), id); err != nil || string(got) != c.want {
			t.Errorf("the field %q of %s is %q, and should be %q; %v", c.key, c.json, got, c.want, err)
		}
	}
}
