package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

func TestDoctorVerdict(t *testing.T) {
	for _, c := range []struct {
		statuses []doctor.Status
		code     int
		says     string
	}{
		{[]doctor.Status{doctor.OK, doctor.Skip}, exitOK, ""},
		{[]doctor.Status{doctor.OK, doctor.Warn}, exitWarning, "no check failed; 1 warning: warn"},
		{[]doctor.Status{doctor.Warn, doctor.Fail, doctor.OK}, exitError, "not well: fail"},
	} {
		r := &doctor.Report{}
		for _, s := range c.statuses {
			r.Add(doctor.Check{Name: string(s), Status: s})
		}
		err := verdict(r)
		if (err == nil) != (c.code == exitOK) || err != nil && (codeOf(t.Context(), err) != c.code || err.Error() != c.says) {
			t.Errorf("%v: %v", c.statuses, err)
		}
	}
}

func TestDoctorAsksServer(t *testing.T) {
	full := 64
	for _, c := range []struct {
		r    httpapi.Readiness
		want doctor.Status
	}{
		{httpapi.Readiness{Status: httpapi.Ready}, doctor.OK}, {httpapi.Readiness{Status: httpapi.Ready, DiskFull: true}, doctor.Warn},
		{httpapi.Readiness{Status: httpapi.Starting, Total: &full}, doctor.Warn}, {httpapi.Readiness{Status: httpapi.Draining}, doctor.Warn},
		{httpapi.Readiness{Status: httpapi.Failed}, doctor.Fail},
	} {
		if got := judgeReadiness("http://x", c.r); got.Status != c.want || (got.Advice == "") != (c.want == doctor.OK) {
			t.Errorf("%+v: %+v", c.r, got)
		}
	}
	now := time.Now()
	for off, want := range map[time.Duration]doctor.Status{0: doctor.OK, 2 * time.Second: doctor.OK, -2 * time.Second: doctor.OK,
		time.Minute: doctor.Warn, -time.Hour: doctor.Warn} {
		if got := judgeSkew(now.Add(off), now, now.Add(time.Second)); got.Status != want {
			t.Errorf("%v off: %+v", off, got)
		}
	}
	same := client.Build{Version: buildVersion(), Commit: buildCommit(), ABI: abi.ImportModule, Store: host.StoreFormat}
	other, older := same, same
	other.Version, older.Store = "v9.9.9", host.StoreFormat-1
	for _, c := range []struct {
		b              client.Build
		err            error
		token, version doctor.Status
	}{
		{same, nil, doctor.OK, doctor.OK}, {other, nil, doctor.OK, doctor.Warn}, {older, nil, doctor.OK, doctor.Warn},
		{err: &client.Error{Status: http.StatusUnauthorized}, token: doctor.Fail},
		{err: &client.Error{Status: http.StatusForbidden}, token: doctor.OK, version: doctor.Skip},
		{err: &client.Error{Status: http.StatusNotFound}, token: doctor.OK, version: doctor.Warn},
		{err: errors.New("cut"), token: doctor.Fail},
	} {
		got := judgeBuild(c.b, c.err)
		if got[0].Status != c.token || len(got) == 2 && got[1].Status != c.version || (len(got) == 2) != (c.version != "") {
			t.Errorf("%+v %v: %+v", c.b, c.err, got)
		}
	}
}

// TestUpgrade upgrades a store of an early release as the manual describes: doctor announces the upgrade of the
// format, the server opens the store and lists its runs, and after that doctor has no complaint.
func TestUpgrade(t *testing.T) {
	data, address := t.TempDir(), freeAddress(t)
	unpackStore(t, "../../host/testdata/store-190749f/store.tar.gz", data)
	look := func() (c doctor.Check) {
		t.Helper()
		var out, errs bytes.Buffer
		execute(t.Context(), []string{"doctor", "--no-server", "--data", data, "--for", "1ms", "--format", "json"},
			stdio{in: strings.NewReader(""), out: &out, err: &errs})
		var r doctor.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Checks[0].Name != "data" {
			t.Fatalf("%v: %s %s", err, out.String(), errs.String())
		}
		return r.Checks[0]
	}
	if c := look(); c.Status != doctor.Warn || !strings.Contains(c.Found, fmt.Sprintf("which becomes %d when", host.StoreFormat)) ||
		!strings.Contains(c.Advice, "back it up before") {
		t.Errorf("before: %+v", c)
	}
	p := serveProcess(t, data, address)
	if got := commanded(t, address, "runs", "--format", "ids"); !strings.Contains(got, "asleep") || !strings.Contains(got, "paused") {
		t.Errorf("the runs are %s", got)
	}
	if c := look(); c.Status != doctor.OK || !strings.Contains(c.Found, fmt.Sprintf("a server has it open (process %d)", p.Process.Pid)) {
		t.Errorf("while it runs: %+v", c)
	}
	_ = p.Process.Signal(os.Interrupt)
	if code := p.end(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if c := look(); c.Status != doctor.OK || strings.Contains(c.Found, "open") {
		t.Errorf("after: %+v", c)
	}
}

// unpackStore extracts a compressed archive into a folder.
func unpackStore(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else {
			var b []byte
			b, err = io.ReadAll(r)
			if err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
