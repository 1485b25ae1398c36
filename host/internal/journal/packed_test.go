package journal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestPackedKeys reads keys as they are written now, and as earlier releases wrote them. Of too many keys, the newest
// are carried over.
func TestPackedKeys(t *testing.T) {
	var all Keys
	for i := range 3000 {
		all = append(all, Key{Name: []string{"a", "", `"` + strings.Repeat("é", 127)}[i%3], Key: fmt.Sprint("key", i), Digest: digest([]byte{byte(i)}),
			Iteration: uint32(i / 100)})
	}
	old, err := json.Marshal([]Key(all))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := json.Marshal(all)
	if err != nil || len(packed) > len(old)/2 {
		t.Errorf("%d bytes, as an array %d: %v", len(packed), len(old), err)
	}
	for _, text := range [][]byte{old, packed} {
		var got Keys
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, all) {
			t.Errorf("%.60s: %d keys, %v", text, len(got), err)
		}
	}
	for _, text := range []string{`"AA=="`, `"/w=="`, `7`, `"//////////////8="`} {
		if err := json.Unmarshal([]byte(text), new(Keys)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	if n := len(all.Newest()); n != len(all) {
		t.Errorf("%d of %d keys go over", n, len(all))
	}
	for i := range all {
		all[i].Name = strings.Repeat("n", 700)
	}
	if got := all.Newest(); len(got) >= len(all) || len(got) < 1000 || got[len(got)-1] != all[len(all)-1] {
		t.Errorf("%d of %d keys go over", len(got), len(all))
	}
}
