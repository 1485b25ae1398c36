package expression_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition/expression"
)

// TestNumbersAreKept decodes and encodes JSON numbers, which stay the same.
func TestNumbersAreKept(t *testing.T) {
	for text, want := range map[string]string{
		"9007199254740993": "9007199254740993", "-9223372036854775808": "-9223372036854775808", "18446744073709551615": "18446744073709551615",
		"18446744073709551616": "18446744073709551616", "1e400": "1e400", "-1E-400": "-1E-400", "0.30000000000000004": "0.30000000000000004",
		"0.1000000000000000055511151231257827": "0.1000000000000000055511151231257827", "1.0": "1", "-0": "-0", "-0.0": "-0", "0": "0",
		"1e18": "1000000000000000000", "100000000000000000000": "100000000000000000000", "9007199254740993.0": "9007199254740993.0",
		"1e99999999999999999999": "1e99999999999999999999", "0e7": "0", "120.50": "120.5", "1234567890123456789012.5": "1234567890123456789012.5",
	} {
		v, err := expression.Decode([]byte(`{"a":[` + text + `]}`))
		if err != nil {
			t.Fatal(text, err)
		}
		e, err := expression.Compile("input.a[0]", []string{"input"})
		if err != nil {
			t.Fatal(err)
		}
		v, err = e.Eval(map[string]any{"input": v})
		b, _ := json.Marshal(v)
		if err != nil || string(b) != want {
			t.Errorf("%s becomes %s %v, not %s", text, b, err, want)
		}
	}
}

// TestExactNumbers computes with 64-bit numbers: the result is exact, or there is an error with the reason.
func TestExactNumbers(t *testing.T) {
	const no = "does not fit into 64 bits"
	for text, want := range map[string]string{
		"top + 0": "9223372036854775807", "top + 1": no, "least - 1": no, "top * 2": no, "-least": no, "least * -1": no, "0 - least": no,
		"top + least": "-1", "3037000500 * 3037000500": no, "9223372036854775807 + 1": no, "sum([top, 1])": no, "sum([top, -1])": "9223372036854775806",
		"sum([1, 2.5])": "3.5", "sum(list, # * 2)": "12", "sum([top, 1], # - 1)": "9223372036854775806", "reduce([top, 1], #acc + #)": no,
		"abs(least)": no, "abs(-3)": "3", "int(1e19)": no, "int(1e18)": "1000000000000000000", "int(-1e300)": no, `int("7")`: "7",
		"big == 9007199254740992.0": "false", "big > 9007199254740992.0": "true", "9007199254740992.0 < big": "true", "big != 9007199254740992.0": "true",
		"9007199254740992.0 >= big": "false", "top < 9223372036854775807.0": "true", "1 == 1.0": "true", "2 > 1.5": "true", "top == top": "true",
		"big + 0.5": "as a fraction", "big / 2": "as a fraction", "big / 3": "3002399751580331", "top / top": "1", "6 / 3": "2", "7 / 2": "3.5",
		"2 ** 10": "1024", "2 ** 62": "4611686018427387904", "3 ** 39": "4052555153018976267", "2 ** 63": no, "2 ** -1": "0.5", "2.0 ** 64": "18446744073709552000",
		"10 ** 30": no, "0 ** 0": "1", "float(big)": "as a fraction", "round(big)": "as a fraction", "mean([big])": "as a fraction", "float(3)": "3",
		"max([1, 2.5])": "2.5", "max([big, 9007199254740992.0])": "as a fraction", "max(top, big)": "9223372036854775807", "sort([3, 1, 2])": "[1,2,3]",
		"u": "18446744073709551615", "[u, u]": "[18446744073709551615,18446744073709551615]", "u + 1": "cannot be computed with", "u > 1": "cannot be computed with",
		"u == u": "true", "u == 5": "false", "u != 5": "true", "u == tiny": "cannot be computed with", "-u": "cannot be computed with", "int(u)": "cannot be computed with",
		"string(u)": `"18446744073709551615"`, "toJSON(u)": `"18446744073709551615"`, `fromJSON("{\"id\": 9007199254740993}").id`: "9007199254740993",
		`fromJSON("18446744073709551615")`: "18446744073709551615", "18446744073709551615": "integer literal", "max(u, 1)": "cannot be computed with",
		`"a" + "b"`: `"ab"`, `name + "!"`: `"Ada!"`, `name == "Ada"`: "true", "name < \"B\"": "true", "none == nil": "true", "list == [1, 2, 3]": "true",
		"filter(list, # > 1)": "[2,3]", `string(duration("1h") + duration("30m"))`: `"1h30m0s"`, "name + 1": "invalid operation", "list - 1": "invalid operation",
		"not (1 > 2)": "true", "1 > 2 or 2 > 1 ? 1 : 2": "1", "5 % 3": "2", "-(3)": "-3", "1 - 3": "-2", "-5 * 3": "-15", "bitshl(1, 2)": "4", `name matches "^A" + "d"`: "true",
		"len(list) + 1": "4", "0.1 + 0.2": "0.30000000000000004", `date("2026-01-01") < date("2026-01-02")`: "true",
	} {
		env := map[string]any{"list": []any{1, 2, 3}, "name": "Ada", "none": nil}
		for name, number := range map[string]string{"top": "9223372036854775807", "least": "-9223372036854775808", "big": "9007199254740993",
			"u": "18446744073709551615", "tiny": "1e-400"} {
			v, err := expression.Decode([]byte(number))
			if err != nil {
				t.Fatal(err)
			}
			env[name] = v
		}
		var got string
		e, err := expression.Compile(text, []string{"list", "name", "none", "top", "least", "big", "u", "tiny"})
		if err == nil {
			var v any
			v, err = e.Eval(env)
			if err == nil {
				b, _ := json.Marshal(v)
				got = string(b)
			}
		}
		if err != nil {
			got = fmt.Sprint(err)
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}
