package workflow

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

// TestJSONCodec compares the codec with package json.
func TestJSONCodec(t *testing.T) {
	for _, v := range []any{0, -1, 5, 999_999_999, 1_000_000_000, math.MaxInt, math.MinInt, int64(7), int64(math.MinInt64), true,
		false, "", "plain text ~", "quo\"te", "back\\slash", "<&>", "ä", "\x7f", "\n", "\xff", nil, 1.5, []string{"a"}} {
		got, err := jsonCodec{}.Marshal(v)
		want, wantErr := json.Marshal(v)
		if string(got) != string(want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%#v: %q %v, not %q", v, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-0", "00", "01", "-", "--1", "5", "-5", "123456789", "-123456789", "1234567890",
		"9223372036854775807", "9223372036854775808", "1.0", "1e3", " 5", "5 ", "+5", "true", "false", "True", " true", "null",
		`""`, `"`, `"a"`, `"a""`, `"a\"`, `"a\"b"`, `"\u00e4"`, `"ä"`, "\"\n\"", "\"\xff\"", `"<&>"`, "\"\x7f\"", `{}`, `[1]`} {
		for _, made := range []func() any{func() any { return new(int) }, func() any { return new(int64) },
			func() any { return new(bool) }, func() any { return new(string) }, func() any { return new(any) }} {
			got, want := made(), made()
			err, wantErr := jsonCodec{}.Unmarshal([]byte(text), got), json.Unmarshal([]byte(text), want)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, wantErr) {
				t.Errorf("%q into %T: %v %v, not %v %v", text, got, got, err, want, wantErr)
			}
		}
	}
}
