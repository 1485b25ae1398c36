package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestPayloadsMustBeJSON refuses payloads that are not JSON, not UTF-8 or nested too deeply, in every request, with a
// sentence.
func TestPayloadsMustBeJSON(t *testing.T) {
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		if err := h.HandleRemote("charge"); err != nil {
			t.Error(err)
		}
	}))
	step := wasmgen.New(0).Text("charge").Text("host/charge").Text(`{"cents":7}`).Text(`{"attempts":1}`).I32(0).I32(0).Call(abi.FnStepDo).Drop()
	for name, m := range map[string]*wasmgen.Module{"step": step.I32(0),
		"signals": wasmgen.New(0).Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop().I32(0)} {
		if _, err := h.Upload(t.Context(), name, m.Export(abi.ExportRun).Bytes(), host.AllowStep("charge")); err != nil {
			t.Fatal(err)
		}
	}
	api := New(h.Host, Access{Local: local})
	call := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1:7777"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+local)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := call("POST", "/v1/workflows/step/runs", `{"id":"r"}`); code != http.StatusCreated {
		t.Fatal(code, text)
	}
	_, text := call("GET", "/v1/handlers/charge/attempts?wait=30s", "")
	var page List[Attempt]
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Items) != 1 {
		t.Fatal(text, err)
	}
	lease := "/v1/handlers/charge/attempts/" + page.Items[0].Lease
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, bad := range []string{"oops", "{", "NaN", "1 2", "\"\xff\"", deep(abi.MaxJSONDepth + 500)} {
		for path, body := range map[string]string{
			lease + "/complete":          bad,
			lease + "/heartbeat":         bad,
			lease + "/fail":              `{"message":"no","details":` + bad + `}`,
			"/v1/workflows/step/runs":    `{"id":"x","input":` + bad + `}`,
			"/v1/runs/r/updates/u":       bad,
			"/v1/runs/r/queries/q":       bad,
			"/v1/workflows/signals/runs": `{"id":"y","signal":{"name":"go","payload":` + bad + `}}`,
		} {
			if code, text := call("POST", path, body); code != http.StatusBadRequest && code != http.StatusUnprocessableEntity && code != http.StatusRequestEntityTooLarge ||
				!strings.Contains(text, `"detail":"`) {
				t.Errorf("%s with %.20q: %d %.300s", path, bad, code, text)
			}
		}
	}
	if code, text := call("POST", lease+"/complete", `{"n":1e400}`); code != http.StatusNoContent {
		t.Error(code, text)
	}
}

// TestDeepPayloads shows runs whose inputs have the maximum nesting.
func TestDeepPayloads(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "quick", wasmgen.New(0).I32(0))
	deep := strings.Repeat("[", abi.MaxJSONDepth) + strings.Repeat("]", abi.MaxJSONDepth)
	if w := a.call(local, http.MethodPost, "/v1/workflows/quick/runs", `{"id":"r","input":`+deep+`}`); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	if w := a.call(local, http.MethodGet, "/v1/runs/r/journal", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), deep) ||
		json.Unmarshal(w.Body.Bytes(), new(any)) != nil {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

// TestStartWithoutRead starts a run as a caller who may not read runs: the answer has only what this caller may know,
// and no wrong values.
func TestStartWithoutRead(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "quick", wasmgen.New(0).I32(0))
	text, _, err := a.h.Tokens().Create(t.Context(), host.TokenSpec{Scopes: []host.Scope{host.ScopeRun}})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{http.StatusCreated, http.StatusOK} {
		w := a.call(text, http.MethodPost, "/v1/workflows/quick/runs", `{"id":"r"}`)
		want := `{"id":"r","workflow":"quick","version":1}`
		if code == http.StatusOK {
			want = `{"id":"r","workflow":"quick","version":1,"existed":true}`
		}
		if got := strings.TrimSpace(w.Body.String()); w.Code != code || got != want {
			t.Errorf("%d %s, not %d %s", w.Code, got, code, want)
		}
	}
}
