package httpapi_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// fields lists the JSON names of fields in the API and in the command line's output. New ones may be added; existing
// ones are never changed or removed.
var fields = map[string]struct {
	v    any
	want string
}{
	"run": {host.Run{}, "namespace id workflow version module status reason created started updated ended wake entries existed iteration " +
		"first_iteration attributes memo parent output schedule nominal aside imported place throttled error failure help trace_id"},
	"version": {host.Version{}, "workflow version module allow_step allow_http allow_secret created imported new queries signals updates live"},
	"timer":   {host.Timer{}, "run workflow due"},
	"entry":   {httpapi.Entry{}, "seq kind time handle name target input options data due attempt refused code skipped consumed base64"},
	"log":     {httpapi.Log{}, "index time level step attempt text"},
	"chunk":   {httpapi.Chunk{}, "index time topic data base64"},
	"check":   {host.RunCheck{}, "run version status iteration entries outcome entry journal workflow reason notes"},
	"summary": {host.CheckSummary{}, "workflow version module runs compatible diverging not_checked migrated unchanged"},
	"page":    {httpapi.List[host.Run]{}, "items next"},
	"counts":  {httpapi.Counts{}, "total statuses"},
	"changed": {httpapi.Changed{}, "run count"},
	"bulk":    {httpapi.BulkAnswer{}, "matched changed runs errors more"},
	"problem": {httpapi.Problem{}, "type title status detail code run faults update failure"},
	"update":  {host.Update{}, "run name id status"},
	"new schedule": {httpapi.ScheduleSpec{}, "workflow version input input_base64 attributes memo timeout when zone jitter overlap catch_up " +
		"from until runs priority revision"},
	"schedule": {httpapi.Schedule{}, "id namespace created updated paused note ended next wake started skipped missed running waiting recent " +
		"not_started backfills error"},
	"start": {httpapi.StartRequest{}, "id input input_base64 version at in timeout attributes memo signal on_conflict priority"},
}

func TestJSONIsStable(t *testing.T) {
	for name, c := range fields {
		var got []string
		for f := range reflect.TypeOf(c.v).Fields() {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag != "" && tag != "-" {
				got = append(got, tag)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s has the fields\n%s, they were\n%s", name, strings.Join(got, " "), c.want)
		}
	}
}
