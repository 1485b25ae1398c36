package abi_test

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

func TestCheckJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		`{"a": 1e400}`:                  "",
		` null `:                        "",
		deep(abi.MaxJSONDepth):          "",
		`"` + deep(20000) + `\"[` + `"`: "",
		"":                              "must be JSON, got nothing",
		"oops":                          "must be JSON, got",
		"1 2":                           "must be JSON, got",
		"NaN":                           "must be JSON, got",
		"\"\xff\"":                      "must be JSON in UTF-8",
		deep(abi.MaxJSONDepth + 1):      "nested at most 9000 deep",
	} {
		err := abi.CheckJSON("the thing", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "the thing "+want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
		if abi.IsJSON([]byte(text)) != (want == "") {
			t.Errorf("%.20q: IsJSON", text)
		}
	}
}
