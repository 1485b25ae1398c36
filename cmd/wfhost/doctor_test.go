package main

import (
	"errors"
	"net/http"
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
		{[]doctor.Status{doctor.OK, doctor.Warn}, exitWarning, "nothing fails, and somebody should look at: warn"},
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
