package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wfhost/wfhost/host"
)

// TestAuditLog reads the audit log from an instant on, and the log of refused requests.
func TestAuditLog(t *testing.T) {
	const old, cut, young = `{"time":"2026-01-05T08:00:00.123Z","caller":"local","address":"","scope":"","endpoint":"","status":201}`,
		`{"time":"2026-`, `{"time":"2026-01-05T09:00:00.000Z","caller":"token 1","address":"","scope":"","endpoint":"","status":204}`
	a := newAPI(t, Access{Records: func(refused bool) (io.ReadCloser, error) {
		text := strings.Replace(old, ".123", ".123456789", 1) + "\n" + cut + "\n" + young + "\n"
		if refused {
			text = strings.ReplaceAll(text, "204", "403")
		}
		return io.NopCloser(iotest.OneByteReader(strings.NewReader(text))), nil
	}})
	for query, want := range map[string]string{"": old + "\n" + young + "\n", "?from=2026-01-05T08:30:00Z": young + "\n",
		"?from=2026-01-05T09:00:00Z": young + "\n", "?from=2027-01-05T09:00:00Z": "",
		"?from=2026-01-05T09:00:00Z&refused=true": strings.ReplaceAll(young, "204", "403") + "\n"} {
		w := a.call(local, http.MethodGet, "/v1/audit"+query, "")
		if w.Code != http.StatusOK || w.Body.String() != want || w.Header().Get("Content-Type") != jsonLines {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	a.is(a.call(local, http.MethodGet, "/v1/audit?from=yesterday", ""), http.StatusBadRequest, "invalid")
	// It is about all namespaces.
	own := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Namespace: "team-a"})
	a.is(a.call(own, http.MethodGet, "/v1/audit?namespace=team-a", ""), http.StatusForbidden, "scope")
	most := a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeOperate, host.ScopeUpload, host.ScopeRun}})
	a.is(a.call(most, http.MethodGet, "/v1/audit", ""), http.StatusForbidden, "scope")
	if r := a.records[0]; r.Endpoint != auditPattern || r.Caller != "local" {
		t.Errorf("who read the log is not in it: %+v", a.records)
	}
	a.is(a.call(local, http.MethodGet, "/v1/audit", ""), http.StatusOK, "")
	a = newAPI(t, Access{})
	a.is(a.call(local, http.MethodGet, "/v1/audit", ""), http.StatusNotFound, "not_found")
}

// TestAuditLogIsDamaged reads past the zeros that a power failure has left at the end of a file.
func TestAuditLogIsDamaged(t *testing.T) {
	const first, last = `{"time":"2026-01-05T08:00:00.000Z","caller":"local","address":"","scope":"","endpoint":"","status":201}`,
		`{"time":"2026-01-05T09:00:00.000Z","caller":"token 1","address":"","scope":"","endpoint":"","status":204}`
	for _, zeros := range []int{10, 1000, 64 << 10, 1 << 20} {
		a := newAPI(t, Access{Records: func(bool) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(first + "\n" + strings.Repeat("\x00", zeros) + "\n" + last + "\n")), nil
		}})
		w := a.call(local, http.MethodGet, "/v1/audit", "")
		if w.Code != http.StatusOK || w.Body.String() != first+"\n"+last+"\n" {
			t.Errorf("%d zeros: %d %.300s", zeros, w.Code, w.Body)
		}
	}
}

// TestAuditLogIsCut has the log fail in the middle: the answer is aborted, so that the receiver does not take it for
// complete.
func TestAuditLogIsCut(t *testing.T) {
	a := newAPI(t, Access{Records: func(bool) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(errors.New("disk")))), nil
	}})
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // what it panics with
			t.Error(p)
		}
	}()
	a.call(local, http.MethodGet, "/v1/audit", "")
	t.Error("the answer was sent to its end")
}

// An unknown value is answered with the list of valid ones.
func TestOrders(t *testing.T) {
	a := newAPI(t, Access{})
	w := a.call(local, http.MethodGet, "/v1/runs?order=up", "")
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "newest, oldest") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
