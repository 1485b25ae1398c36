package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// linesOf reads the lines of an answer.
func linesOf(t *testing.T, text string) (reports []host.RunCheck, sum *host.CheckSummary) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(text))
	for n := 0; s.Scan(); n++ {
		var line CheckLine
		if err := json.Unmarshal(s.Bytes(), &line); err != nil || (n == 0) != (line.Total != nil) || sum != nil {
			t.Fatalf("line %d of %s: %v", n, text, err)
		}
		sum = line.Summary
		if line.Run != nil {
			reports = append(reports, *line.Run)
		}
	}
	return reports, sum
}

// TestUpgradeOverHTTP checks and migrates, and is refused.
func TestUpgradeOverHTTP(t *testing.T) {
	a := newAPI(t, Access{})
	first, second := string(nap().Export(abi.ExportRun).Bytes()), string(nap().Drop().I32(0).Export(abi.ExportRun).Bytes())
	if w := a.call(local, http.MethodPut, "/v1/workflows/w/versions", first, "Content-Type", "application/wasm"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	if w := a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r","input":"90h"}`); w.Code/100 != 2 {
		t.Fatal(w.Code, w.Body)
	}
	check := func(token, query, body string) (int, string, string) {
		w := a.call(token, http.MethodPost, "/v1/workflows/w/check"+query, body, "Content-Type", "application/wasm")
		return w.Code, w.Header().Get("Content-Type"), w.Body.String()
	}
	status, kind, text := check(local, "?cpu=1s&parallel=2&ended=1h", second)
	if reports, sum := linesOf(t, text); status != http.StatusOK || kind != "application/jsonl" || len(reports) != 1 || sum == nil ||
		sum.Compatible != 1 || reports[0].Outcome != host.CheckCompatible {
		t.Fatalf("%d %s %s", status, kind, text)
	}
	for query, body := range map[string]string{"?cpu=soon": first, "?ended=-1s": first, "?parallel=100": first, "?cpu=1h": first,
		"?ended=400000d": first, "": "no module"} {
		if status, kind, text := check(local, query, body); status != http.StatusBadRequest || kind != "application/problem+json" {
			t.Errorf("%s: %d %s %s", query, status, kind, text)
		}
	}
	if w := a.call(local, http.MethodPost, "/v1/workflows/none/check", first, "Content-Type", "application/wasm"); w.Code != http.StatusNotFound {
		t.Error(w.Code, w.Body)
	}
	if w := a.call(local, http.MethodPost, "/v1/workflows/w/check", first); w.Code != http.StatusUnsupportedMediaType {
		t.Error(w.Code, w.Body)
	}
	if w := a.call(local, http.MethodPut, "/v1/workflows/w/versions", second, "Content-Type", "application/wasm"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	migrate := func(token, body string) (int, string) {
		w := a.call(token, http.MethodPost, "/v1/workflows/w/migrate", body)
		return w.Code, w.Body.String()
	}
	for _, body := range []string{`{}`, `{"to":0}`, `{"to":2,"cpu":"x"}`, `{"to":2,"x":1}`} {
		if status, text := migrate(local, body); status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	status, text = migrate(local, `{"to":2,"dry_run":true}`)
	if _, sum := linesOf(t, text); status != http.StatusOK || sum.Compatible != 1 || sum.Migrated != 0 {
		t.Fatalf("%d %s", status, text)
	}
	status, text = migrate(a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeOperate}}), `{"to":2,"from":1,"runs":["r","none"]}`)
	if reports, sum := linesOf(t, text); status != http.StatusOK || sum.Migrated != 1 || sum.NotChecked != 1 || len(reports) != 2 {
		t.Fatalf("%d %s", status, text)
	}
	if w := a.call(local, http.MethodGet, "/v1/runs/r", ""); !strings.Contains(w.Body.String(), `"version":2`) {
		t.Error(w.Body)
	}
}

// TestMigrationTellsNoJournal shows a caller who may not read where a run diverges, but not what its journal has
// there.
func TestMigrationTellsNoJournal(t *testing.T) {
	at := uint64(4)
	r := host.RunCheck{RunID: "r", Outcome: host.CheckDiverges, Entry: &at, Journal: `sleep "secret"`, Workflow: `step "secret"`,
		Reason: `diverges at entry 4: the journal has sleep "secret"`, Notes: []string{"secret"}}
	withoutJournal(&r)
	b, err := json.Marshal(r)
	if err != nil || strings.Contains(string(b), "secret") || r.Reason != "diverges at entry 4" {
		t.Errorf("%s %v", b, err)
	}
}

// slowReader is a client whose every read takes some time.
type slowReader struct {
	*httptest.ResponseRecorder
	clock *clock.Fake
	takes time.Duration
}

func (s slowReader) Write(b []byte) (int, error) {
	s.clock.Advance(s.takes)
	return s.ResponseRecorder.Write(b)
}

// TestCheckOfSlowReaders checks five runs for clients that read slowly. The check waits for them for at most
// maxLineWait in total.
func TestCheckOfSlowReaders(t *testing.T) {
	a := newAPI(t, Access{})
	c := clock.NewFake(time.Unix(0, 0))
	a.clock = c
	module := nap().Export(abi.ExportRun).Bytes()
	a.is(a.call(local, http.MethodPut, "/v1/workflows/w/versions", string(module), "Content-Type", "application/wasm"), http.StatusCreated, "")
	for range 5 {
		a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"input":"90h"}`), http.StatusCreated, "")
	}
	for takes, cut := range map[time.Duration]bool{maxLineWait / 6: false, maxLineWait/5 + 1: true} {
		w := slowReader{httptest.NewRecorder(), c, takes}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7777/v1/workflows/w/check", bytes.NewReader(module))
		r.Header.Set("Authorization", "Bearer "+local)
		r.Header.Set("Content-Type", "application/wasm")
		was := func() (err any) {
			defer func() { err = recover() }()
			a.ServeHTTP(w, r)
			return nil
		}()
		if (was != nil) != cut || strings.Contains(w.Body.String(), `"summary"`) == cut {
			t.Errorf("%v for each line: %v, %s", takes, was, w.Body)
		}
	}
}
