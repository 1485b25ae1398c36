package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

var (
	conformRequests = flag.Int("conform.n", 3000, "requests of TestConform")
	conformSeed     = flag.Uint64("conform.seed", 1, "of what they are")
)

// document is the API's own description, as a client reads it.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Parameters  []struct {
			Name, In string
			Schema   map[string]any
		}
		RequestBody struct {
			Content map[string]struct{ Schema map[string]any }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema any }
		}
	}
	Components struct{ Schemas map[string]map[string]any }
}

// conformer makes requests that partly match the description, and compares the answers with it.
type conformer struct {
	*api
	r       *rand.Rand
	doc     document
	schemas *jsonschema.Compiler
	names   []string            // of the operations
	seen    map[string]struct{} // operation and status
}

func newConformer(t *testing.T) *conformer {
	c := &conformer{api: newAPI(t, Access{}), r: rand.New(rand.NewPCG(*conformSeed, 0)), schemas: jsonschema.NewCompiler(), seen: map[string]struct{}{}}
	c.denials = newRates(0, 0)
	c.upload("", "nap", wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0))
	c.upload("", "quick", wasmgen.New(0).I32(0))
	c.upload("", "bad", wasmgen.New(0).I32(1))
	text := c.call("", http.MethodGet, "/openapi.json", "").Body.Bytes()
	if err := json.Unmarshal(text, &c.doc); err != nil {
		t.Fatal(err)
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.schemas.AddResource("file:///openapi.json", whole); err != nil {
		t.Fatal(err)
	}
	for path, methods := range c.doc.Paths {
		for method := range methods {
			c.names = append(c.names, method+" "+path)
		}
	}
	slices.Sort(c.names)
	return c
}

// pick returns one of some texts.
func (c *conformer) pick(of ...string) string { return of[c.r.IntN(len(of))] }

// value returns a value that matches a schema, or nearly so.
func (c *conformer) value(schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.doc.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]]
	}
	if c.r.IntN(12) == 0 || depth > 5 { // anything
		return []any{nil, true, -1.5, "", "x", []any{}, map[string]any{}, json.Number("1e400"), strings.Repeat("y", 5000)}[c.r.IntN(9)]
	}
	if enum, ok := schema["enum"].([]any); ok {
		return enum[c.r.IntN(len(enum))]
	}
	kind, _ := schema["type"].(string)
	if kinds, ok := schema["type"].([]any); ok {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "object":
		return c.object(schema, depth)
	case "array":
		list := []any{}
		items, _ := schema["items"].(map[string]any)
		for range c.r.IntN(3) {
			list = append(list, c.value(items, depth+1))
		}
		return list
	case "integer", "number":
		return []any{0, 1, 2, 10, 1000, -1, 1 << 40, 1.5}[c.r.IntN(8)]
	case "boolean":
		return c.r.IntN(2) == 0
	case "string":
		if schema["format"] == "date-time" {
			return c.pick("2026-01-05T09:00:00Z", "2026-01-05T09:00:00.123+02:00", "yesterday")
		}
		return c.pick("r1", "r2", "nap", "quick", "bad", "1h", "5s", "P1M", "skip", "@hourly", "0 9 * * *", "read", "amount>=1", "", "é\n\x00", "-")
	}
	return map[string]any{"a": c.pick("b", "c")}
}

func (c *conformer) object(schema map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if name != "$schema" && (slices.Contains(required, any(name)) && c.r.IntN(20) > 0 || c.r.IntN(3) == 0) {
			of, _ := properties[name].(map[string]any)
			out[name] = c.value(of, depth+1)
			if fitting[name] != nil && c.r.IntN(8) > 0 {
				out[name] = fitting[name][c.r.IntN(len(fitting[name]))]
			}
		}
	}
	if c.r.IntN(20) == 0 {
		out["unknown"] = 1
	}
	return out
}

// fitting are values for fields whose schemas are not specific enough.
var fitting = map[string][]any{"workflow": {"nap", "quick", "bad"}, "when": {"@hourly", "0 9 * * *", "@every 1h"}, "zone": {"Europe/Berlin"},
	"id": {"r1", "r2", "r3"}, "overlap": {"skip", "allow", "buffer_one"}, "scopes": {[]string{"read"}, []string{"run", "operate"}},
	"concurrency": {[]string{"5"}, []string{}}, "rate": {[]string{"100/1m"}, []string{}}, "from": {"2026-01-05T07:00:00Z"}, "to": {"2026-01-05T08:00:00Z"},
	"jitter": {"1s"}, "catch_up": {"1h"}, "timeout": {"1h"}, "in": {"1s"}, "at": {"2026-01-05T09:00:00Z"}, "on_conflict": {"existing", "replace"},
	"until": {"2027-01-01T00:00:00Z"}, "debounce": {"1s"}, "expires": {"30d"}, "completed": {"30d"}, "throttle": {"1m"}, "failed": {"90d"}, "priority": {1}, "runs": {3}, "namespace": {"default"}, "input_base64": {""}}

// segment is what stands in a path.
func (c *conformer) segment(name string) string {
	switch name {
	case "id":
		return c.pick("r1", "r2", "r3", "r4", "nobody", "%2E%2E", "%00", strings.Repeat("x", 200))
	case "workflow":
		return c.pick("nap", "quick", "bad", "nobody", "-", "%ff")
	case "version":
		return c.pick("1", "2", "0", "x", "4294967296")
	case "schedule":
		return c.pick("r1", "r2", "nobody")
	}
	return c.pick("default", "nap", "status", "x", "%20", strings.Repeat("z", 140))
}

// request makes a request to an operation.
func (c *conformer) request(name string) *http.Request {
	method, path, _ := strings.Cut(name, " ")
	op := c.doc.Paths[path][method]
	q := url.Values{}
	var key string
	for _, p := range op.Parameters {
		switch {
		case p.In == "header" && p.Name == "Idempotency-Key":
			key = c.pick("", "k1", "k2")
		case p.In != "query" || p.Name == "namespace" && c.r.IntN(20) > 0 || c.r.IntN(3) > 0:
		case p.Name == "wait":
			q.Set(p.Name, c.pick("0s", "1ms", "x", "-1s"))
		default:
			q.Set(p.Name, fmt.Sprint(c.value(p.Schema, 1)))
		}
	}
	if c.r.IntN(30) == 0 {
		q.Set("stauts", "waiting")
	}
	for {
		before, rest, ok := strings.Cut(path, "{")
		if !ok {
			break
		}
		segment, after, _ := strings.Cut(rest, "}")
		path = before + c.segment(segment) + after
	}
	var body []byte
	kinds := slices.Sorted(maps.Keys(op.RequestBody.Content))
	kind := "application/json"
	if len(kinds) > 0 && c.r.IntN(15) > 0 {
		kind = kinds[c.r.IntN(len(kinds))]
		body, _ = json.Marshal(c.value(op.RequestBody.Content[kind].Schema, 0)) // numbers too large for JSON give no body
		if kind == "application/wasm" && c.r.IntN(2) == 0 {
			body = wasmgen.New(0).I32(int32(c.r.IntN(3))).Export(abi.ExportRun).Bytes()
		}
	}
	r := httptest.NewRequestWithContext(c.t.Context(), strings.ToUpper(method), "http://127.0.0.1:7777"+path+"?"+q.Encode(), bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Authorization", "Bearer "+local)
	if c.r.IntN(40) == 0 {
		r.Header.Set("Authorization", "Bearer nobody")
	}
	return r
}

// check compares an answer with the document.
func (c *conformer) check(name string, r *http.Request, w *httptest.ResponseRecorder) {
	method, path, _ := strings.Cut(name, " ")
	what := fmt.Sprintf("%s: %s %s: %d %.300s", name, r.Method, r.URL, w.Code, w.Body)
	status := strconv.Itoa(w.Code)
	answer, ok := c.doc.Paths[path][method].Responses[status]
	c.seen[name+" "+status] = struct{}{}
	if !ok || w.Code == http.StatusInternalServerError {
		c.t.Errorf("an undocumented status: %s", what)
		return
	}
	if w.Body.Len() == 0 && len(answer.Content) == 0 {
		return
	}
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if _, ok := answer.Content[kind]; !ok {
		c.t.Errorf("an undocumented content type %q: %s", kind, what)
		return
	}
	if !strings.HasSuffix(kind, "json") {
		return
	}
	at := fmt.Sprintf("file:///openapi.json#/paths/%s/%s/responses/%s/content/%s/schema", pointer(path), method, status, pointer(kind))
	schema, err := c.schemas.Compile(at)
	if err != nil {
		c.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(w.Body)
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		c.t.Errorf("%s: %v", what, err)
	}
}

// pointer escapes a part of a JSON pointer in a URL.
func pointer(text string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(text))
}

// longestRequest is how long a client waits: an update that the run does not receive waits for the host's clock,
// which stands still.
const longestRequest = 200 * time.Millisecond

// answer returns the answer to a request, nil if the client stopped waiting.
func (c *conformer) answer(r *http.Request) (w *httptest.ResponseRecorder) {
	ctx, cancel := context.WithTimeout(r.Context(), longestRequest)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler || ctx.Err() == nil { //nolint:errorlint // as net/http compares it
				panic(v)
			}
			w = nil
		}
	}()
	w = httptest.NewRecorder()
	c.ServeHTTP(w, r.WithContext(ctx))
	return w
}

// TestConform sends requests generated from the API's description: no answer is a server error, and each is
// described.
func TestConform(t *testing.T) {
	c := newConformer(t)
	for i := range *conformRequests {
		if i%500 == 0 {
			for n := range 5 { // some of which have ended by now
				workflow := []string{"nap", "quick", "bad"}[(n+i/500)%3]
				c.call(local, http.MethodPost, "/v1/workflows/"+workflow+"/runs", fmt.Sprintf(`{"id":"r%d","on_conflict":"replace"}`, n))
			}
		}
		name := c.names[c.r.IntN(len(c.names))]
		if (name == "post /v1/backup" || name == "get /v1/events") && c.r.IntN(20) > 0 || name == "delete /v1/workflows/{workflow}/versions/{version}" && c.r.IntN(5) > 0 {
			continue // slow, or needed by the others
		}
		r := c.request(name)
		if w := c.answer(r); w != nil {
			c.check(name, r, w)
		}
		if t.Failed() && *conformRequests < 10_000 {
			break
		}
		c.h.Settle()
	}
	t.Logf("%d pairs of an operation and a status", len(c.seen))
	const enough = 200 // there were 230 when this was written
	if *conformRequests >= 3000 && len(c.seen) < enough && !t.Failed() {
		t.Errorf("only %d pairs of an operation and a status were seen, want %d", len(c.seen), enough)
	}
}
