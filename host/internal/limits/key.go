package limits

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

// maxKeyText bounds the text of a key that is stored with a run for display. A longer key is shown as its digest.
const maxKeyText = 256

// Of returns what the limits need of a run: the keys of the rules, read from its input, and its priority. It returns nil if
// there are no rules. A key that the input lacks is empty; all such runs share the empty key.
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

// CheckPriority returns an error if a priority is out of range.
func CheckPriority(p int) error {
	if p < -MaxPriority || p > MaxPriority {
		return abi.Errorf(abi.InvalidArgument, "a priority is from %d to %d, got %d", -MaxPriority, MaxPriority, p)
	}
	return nil
}

// keyAt returns the value at a path of an input as compact JSON, empty if there is none.
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
	var word string // different JSON spellings of a string are the same key
	if json.Unmarshal(b.Bytes(), &word) == nil && strings.HasPrefix(text, `"`) {
		b.Reset()
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // the key is shown to people, never in HTML
		_ = e.Encode(word)     // text always encodes
		text = strings.TrimSuffix(b.String(), "\n")
	}
	if len(text) > maxKeyText {
		d := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(d[:])
	}
	return text
}
