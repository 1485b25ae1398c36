package limit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// inputRoot begins the path of every key.
const inputRoot = "input"

// maxKeyText bounds the text of a key that is kept with a run, to be shown. A longer one is shown as its digest.
const maxKeyText = 256

// Of returns what the limits of a workflow have to know of a run: the keys of the rules, taken from its input, and its priority.
// It returns nil if there is no rule. A key that the input does not have is the empty one, which all such runs have in common.
func (l Rules) Of(input []byte, priority int) *journal.Limit {
	if len(l) == 0 {
		return nil
	}
	x := &journal.Limit{Priority: priority, Keys: map[string]string{}}
	for i := range l {
		if per := l[i].Per; per != "" {
			x.Keys[per] = keyAt(input, strings.Split(per, ".")[1:])
		}
	}
	return x
}

// CheckPriority returns what is wrong with a priority.
func CheckPriority(p int) error {
	if p < -MaxPriority || p > MaxPriority {
		return abi.Errorf(abi.InvalidArgument, "a priority is from %d to %d, got %d", -MaxPriority, MaxPriority, p)
	}
	return nil
}

// keyAt returns the text of the value at a path of an input: compact JSON, empty if there is none.
func keyAt(input []byte, path []string) string {
	for _, name := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(input, &members) != nil {
			return ""
		}
		input = members[name]
	}
	var b bytes.Buffer
	if json.Compact(&b, input) != nil {
		return ""
	}
	text := b.String()
	var word string // so that the same text, written in different ways, is the same key
	if json.Unmarshal(b.Bytes(), &word) == nil && strings.HasPrefix(text, `"`) {
		b.Reset()
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the key is shown to people, and in no page
		_ = e.Encode(word)     // text always encodes
		text = strings.TrimSuffix(b.String(), "\n")
	}
	if len(text) > maxKeyText {
		d := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(d[:])
	}
	return text
}
