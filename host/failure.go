package host

import (
	"encoding/json"

	"github.com/wfhost/wfhost/abi"
)

// failureOf reads the failure of a run; false if the guest used another form. An SDK records the workflow's own
// errors without a code, and the stack of a panic beside the message.
func failureOf(data []byte) (*abi.Error, bool) {
	var f abi.Error
	var beside struct {
		Stack string `json:"stack"`
	}
	if json.Unmarshal(data, &f) != nil || json.Unmarshal(data, &beside) != nil {
		return nil, false
	}
	if f.Code == abi.OK && f.Kind != "" {
		f.Code = abi.StepFailed
	}
	if f.Details == nil && beside.Stack != "" {
		f.Details = map[string]string{"stack": beside.Stack}
	}
	return &f, true
}
