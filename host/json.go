package host

import (
	"encoding/json"
	"fmt"

	"github.com/wfhost/wfhost/abi"
)

// encoded returns a value as JSON, nil for nil. It checks JSON that the caller has encoded, such as a
// json.RawMessage. The error is ErrInvalid and names the value by what.
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

// checkJSON returns ErrInvalid with a sentence if b is not JSON. Empty input is fine.
func checkJSON(what string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return translate(abi.CheckJSON(what, b))
}
