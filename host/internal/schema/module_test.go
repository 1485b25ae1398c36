package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// workflowOf compiles the schemas of a workflow in a description.
func workflowOf(t *testing.T, description, name string) *Workflow {
	t.Helper()
	var c Cache
	w, err := c.Of(context.Background(), [32]byte{}, name, func() ([]byte, error) { return []byte(description), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestOfModule(t *testing.T) {
	ctx := context.Background()
	description := `{"workflows":[{"name":"a","input_schema":{"type":"string"},"output_schema":true,"signal_schemas":{"s":{"type":"null"}}},{"name":"b","input_schema":null}]}`
	w := workflowOf(t, description, "a")
	if err := OfModule(ctx, []byte(description)); err != nil || w.Input == nil || w.Signals["s"].Check(ctx, []byte("null")) != nil || workflowOf(t, description, "b") != nil {
		t.Fatal(w, err)
	}
	if err := OfModule(ctx, nil); err != nil {
		t.Error(err)
	}
	long := `{"title":"` + strings.Repeat("a", MaxBytes-20) + `"}`
	var many []string
	for i := range MaxModuleBytes/MaxBytes + 1 {
		many = append(many, fmt.Sprintf(`"s%d":%s`, i, long))
	}
	for description, want := range map[string]string{
		`[`:                          "workflow_describe is not as it should be",
		`[]`:                         "workflow_describe is not as it should be: it is no object, got array",
		`{"workflows":[{"name":7}]}`: "workflow_describe is not as it should be: workflows.name must not be number",
		`{"workflows":[{"name":"a","output_schema":17}]}`:                                 `result of workflow "a": the schema is none`,
		`{"workflows":[{"name":"a","signals":["x"],"signal_schemas":{"s":{}}}]}`:          `the signal "s", which is not among its signals ["x"]`,
		`{"workflows":[{"name":"a","signal_schemas":{"s":17}}]}`:                          `signal "s" of workflow "a": the schema is none`,
		`{"workflows":[{"name":"a","signal_schemas":{` + strings.Join(many, ",") + `}}]}`: "the schemas of the module have more than 1048576 bytes",
	} {
		if err := OfModule(ctx, []byte(description)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", description, err, want)
		}
	}
}

func TestCache(t *testing.T) {
	var c Cache
	loads := 0
	of := func(n int, size int) (*Workflow, error) {
		return c.Of(context.Background(), [32]byte{byte(n), byte(n >> 8)}, "w", func() ([]byte, error) {
			loads++
			return []byte(`{"workflows":[{"name":"w","input_schema":{"title":"` + strings.Repeat("a", size) + `"}}]}`), nil
		})
	}
	for range 3 {
		if w, err := of(1, 10); err != nil || w.Input == nil || loads != 1 {
			t.Fatal(w, err, loads)
		}
	}
	for i := range 100 { // 50,000 bytes take half a megabyte each
		if _, err := of(10+i, 50_000); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.entries); n > 70 || c.list.Bytes() > CacheBytes {
		t.Errorf("%d modules, %d bytes", n, c.list.Bytes())
	}
	if _, err := of(1, 10); err != nil || loads != 102 {
		t.Error(loads, "loads, the oldest one was not given up", err)
	}
	fails := errors.New("fails")
	if _, err := c.Of(context.Background(), [32]byte{9, 9}, "w", func() ([]byte, error) { return nil, fails }); !errors.Is(err, fails) {
		t.Error(err)
	}
	if w, err := c.Of(context.Background(), [32]byte{9, 9}, "w", func() ([]byte, error) { return []byte(`{"workflows":[{"name":"w","input_schema":17}]}`), nil }); w != nil || err != nil {
		t.Error(w, err) // of a release that did not check it
	}
}
