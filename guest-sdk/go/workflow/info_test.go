package workflow

import (
	"encoding/json"
	"reflect"
	"testing"
)

// infos are valid and invalid answers of the host to info.
var infos = []string{
	`{"run_id":"r-1","workflow":"order","version":7,"module":"ab12","started_at":1767600000000,"iteration":2,` +
		`"run_attempt":1,"position":99,"suggest_continue":true}`,
	`{"run_id":"r","workflow":"o","version":1,"module":"","started_at":-5,"iteration":0,"run_attempt":0,"position":1,` +
		`"suggest_continue":false,"step":{"name":"charge","attempt":1,"attempts":3,"idempotency_key":"K","deadline_ms":12}}`,
	`{"run_id":"r","step":{"name":"s","handler":"h","attempt":2,"attempts":0,"idempotency_key":"","deadline_ms":1,` +
		`"last_error":{"code":"STEP_FAILED","message":"m","attempts":9}},"query":"q"}`,
	`{"run_id":"a\"b","workflow":"\u00e4"}`, `{"run_id":"ä","query":"what"}`, `{"new":{"run_id":"x"},"run_id":"y"}`,
	`{ "run_id" : "spaced" }`, `{"new":[1,2],"run_id":"z"}`, `{"version":1.5}`, `{"version":-1}`, `{}`, ``, `{"run_id":"`,
	`{"new":null,"run_id":"n"}`, `{"run_id":null}`, `{"run_id":5}`, `{"position":"5"}`, `{"suggest_continue":"true"}`,
	`{"run_id":"a","attributes":{"stage":"packed","name":"x","attempt":"7"},"version":2}`, `{"attributes":{},"query":"q"}`,
	`{"attributes":{"a":{"b":"c"}}}`, `{"attributes":{"a":"b"},"memo":{"who":"Ada"},"version":2}`, `{"memo":"text"}`, `{"memo":7}`,
	`{"memo":null,"step":{"attributes":{"a":"b"},"name":"n"}}`,
	`}`, `{"step":{"name":"n"}`, `{"step":{"step":{"name":"n"}}}`, `{,"run_id":"x"}`, `{"version":4294967296}`,
}

// TestParseInfo compares the hand-written parser of info with package json.
func TestParseInfo(t *testing.T) {
	for _, text := range infos {
		var want infoJSON
		if json.Unmarshal([]byte(text), &want) != nil {
			continue // the host gives nothing of the kind
		}
		if got := parseInfo([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, not %+v", text, got, want)
		}
	}
	var i infoJSON
	if !i.scan([]byte(infos[0])) || !i.scan([]byte(infos[1])) {
		t.Error("common answers are not read by hand")
	}
}
