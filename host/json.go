package host

import (
	"encoding/json"
	"fmt"

	"github.com/wfhost/wfhost/abi"
)

// encoded returns a value as JSON, nil for nil. What callers have encoded themselves, such as a json.RawMessage, is checked.
// what names the value in the error, which is ErrInvalid.
func encoded(what string, v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &joined{fmt.Errorf("%s: %w", what, err), ErrInvalid}
	}
	return b, checkJSON(what, b)
}

// checkJSON returns ErrInvalid with a sentence for what is no JSON, and nil for nothing.
func checkJSON(what string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return translate(abi.CheckJSON(what, b))
}
