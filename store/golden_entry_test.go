package store

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var addEntries = flag.Bool("entries", false, "add entries that testdata/entries.txt lacks: see testdata/add-entries.sh")

const goldenEntries = "testdata/entries.txt"

// recorded has an entry of each kind with the fields that the kind uses.
func recorded(k Kind) Entry {
	e := Entry{Seq: 300, Kind: k, UnixMs: 1_767_225_600_000}
	if k.Call() {
		e.Consumed, e.Name = 129, "a name"
	}
	failure := []byte(`{"code":"STEP_FAILED","message":"no"}`)
	switch k {
	case KindStarted:
		e.Seq, e.Name, e.Input, e.Options = 0, "workflow", []byte("1"), []byte(`{"run_id":"r","workflow":"workflow","version":1,"rules":1}`)
	case KindAttemptStarted:
		e.Handle, e.Attempt, e.Code = 7, 2, 1
	case KindAttemptFailed:
		e.Handle, e.Attempt, e.Data, e.StartUnixMs, e.DueUnixMs, e.HasDue = 7, 2, failure, e.UnixMs-5000, e.UnixMs+1000, true
	case KindRetried:
		e.Ref, e.Options = 290, []byte(`{"void":[290,299]}`)
	case KindMigrated:
		e.Target, e.Options = strings.Repeat("ab", 32), []byte(`{"from":1,"to":2}`)
	case KindSignalAccepted:
		e.Name, e.Data, e.Target = "go", []byte(`"payload"`), "a key"
	case KindMoved, KindAdopted:
		e.Target = "a move"
	case KindNow:
		e.Consumed, e.Code = 129, 3
	case KindProgress:
		e.Handle, e.Attempt, e.Data = 7, 2, []byte(`"half"`)
	case KindSleep, KindSignalWait:
		e.Handle, e.DueUnixMs, e.HasDue = 7, e.UnixMs+3_600_000, true
	case KindStep:
		e.Handle, e.Target, e.Input, e.Options = 7, "host/pay", []byte(`{"amount":5}`), []byte(`{"attempts":3}`)
	case KindBody:
		e.Handle, e.Options = 7, []byte(`{"attempts":3}`)
	case KindChild:
		e.Handle, e.Target, e.Input, e.Options, e.Data = 7, "workflow", []byte("2"), []byte(`{"on_end":"cancel"}`), []byte("r.300")
	case KindHook:
		e.Handle, e.Target, e.Options, e.Data = 7, "chosen", []byte(`{"status":200}`), []byte("chosen")
	case KindSignalSend:
		e.Handle, e.Target, e.Options, e.Input = 7, "another-run", []byte("go"), []byte(`"payload"`)
	case KindWithdraw:
		e.Name, e.Handle, e.Code = "", 7, 2
	case KindEmit:
		e.Input, e.Code = []byte(`{"done":1}`), 64
	case KindAttribute:
		e.Input = []byte("value")
	case KindCancelPolicy:
		e.Name, e.Code = "", 1
	case KindMarker:
		e.Code = 3
	case KindContinue:
		e.Name, e.Input, e.Options = "", []byte("3"), []byte(`{"version":"latest"}`)
	case KindUpdateReply:
		e.Name, e.Handle, e.Code, e.Input = "", 7, 1, failure
	case KindTimer:
		e.Handle, e.Skipped, e.DueUnixMs, e.HasDue = 7, true, e.UnixMs+3_600_000, true
	case KindStepResult:
		e.Handle, e.Attempt, e.Data, e.StartUnixMs = 7, 2, []byte(`"paid"`), e.UnixMs-5000
	case KindStepFailure:
		e.Handle, e.Attempt, e.Data, e.StartUnixMs = 7, 2, failure, e.UnixMs-5000
	case KindSignal:
		e.Handle, e.Ref = 7, 290
	case KindSignalTimeout:
		e.Handle = 7
	case KindChildResult:
		e.Handle, e.Data = 7, []byte(`"child"`)
	case KindChildFailure, KindHookReady, KindSignalSent:
		e.Handle, e.Code, e.Data = 7, 15, []byte(`{"code":"CONFLICT","message":"taken"}`)
	case KindClock:
		e.DueUnixMs, e.HasDue = e.UnixMs, true
	case KindCompleted:
		e.Data = []byte(`"result"`)
	case KindFailed, KindCancelled:
		e.Data = failure
	}
	return e
}

// fieldwise has entries with one field set besides the kind.
func fieldwise(field string) Entry {
	e := Entry{Kind: KindStep}
	switch v := reflect.ValueOf(&e).Elem().FieldByName(field); v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("täxt \x00")
	case reflect.Slice:
		v.SetBytes([]byte{0, 255, 1})
	case reflect.Int32, reflect.Int64:
		v.SetInt(-1 << 31)
	case reflect.Uint8: // the kind
	default:
		v.SetUint(1<<32 - 1)
	}
	return e
}

// golden returns the entries that testdata/entries.txt must have, by name.
func golden() map[string]Entry {
	all := map[string]Entry{}
	for k := range Kind(255) {
		if k.Known() {
			all["kind "+k.String()] = recorded(k)
		}
	}
	for i := range reflect.TypeFor[Entry]().NumField() {
		name := reflect.TypeFor[Entry]().Field(i).Name
		all["field "+name] = fieldwise(name)
	}
	all["refused"] = Entry{Seq: 300, Kind: KindStep, UnixMs: 1_767_225_600_000, Name: "no", Target: "host/no", Consumed: 129, Refused: 12,
		Data: []byte(`{"code":"DENIED","message":"no"}`)}
	return all
}

// shown formats the non-zero fields of an entry in order.
func shown(e *Entry) string {
	var parts []string
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() {
			continue
		}
		text := fmt.Sprint(f.Interface())
		if b, ok := f.Interface().([]byte); ok {
			text = strconv.QuoteToASCII(string(b))
		} else if f.Kind() == reflect.String {
			text = strconv.QuoteToASCII(f.String())
		}
		parts = append(parts, v.Type().Field(i).Name+"="+text)
	}
	return strings.Join(parts, " ")
}

// TestGoldenEntries decodes entries as they were first written, one of each kind and one for each field, and encodes
// them again: meaning and bytes are unchanged.
func TestGoldenEntries(t *testing.T) {
	text, err := os.ReadFile(goldenEntries)
	if err != nil {
		t.Fatal(err)
	}
	want := golden()
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, "\t", 3)
		if len(parts) != 3 {
			t.Fatalf("no entry: %q", line)
		}
		b, err := strconv.Unquote(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		e, err := DecodeEntry([]byte(b))
		if err != nil || shown(&e) != parts[2] {
			t.Errorf("%s is decoded as\n%s, %v, and was\n%s", parts[0], shown(&e), err, parts[2])
		}
		if again := AppendEntry(nil, &e); !bytes.Equal(again, []byte(b)) {
			t.Errorf("%s becomes\n%q, and was\n%q", parts[0], again, b)
		}
		delete(want, parts[0])
	}
	if *addEntries {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			e := want[name]
			text = append(text, name+"\t"+strconv.QuoteToASCII(string(AppendEntry(nil, &e)))+"\t"+shown(&e)+"\n"...)
		}
		if err := os.WriteFile(goldenEntries, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("there is no entry %q in %s: write it with testdata/add-entries.sh", name, goldenEntries)
	}
}
