package client_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// The client's types match the API's, field by field.
func TestShapes(t *testing.T) {
	for _, c := range []struct{ client, api any }{
		{client.Run{}, host.Run{}}, {client.QueuePosition{}, host.QueuePosition{}}, {client.Page[int]{}, httpapi.List[int]{}},
		{client.Counts{}, httpapi.Counts{}}, {client.Timer{}, host.Timer{}}, {client.Entry{}, httpapi.Entry{}},
		{client.Log{}, httpapi.Log{}}, {client.Chunk{}, httpapi.Chunk{}}, {client.Version{}, host.Version{}},
		{client.Schemas{}, host.Schemas{}}, {client.RunCheck{}, host.RunCheck{}}, {client.CheckSummary{}, host.CheckSummary{}},
		{client.Migration{}, httpapi.MigrateRequest{}}, {client.Bulk{}, httpapi.BulkRequest{}},
		{client.BulkAnswer{}, httpapi.BulkAnswer{}}, {client.BulkRefusal{}, httpapi.BulkRefusal{}},
		{client.ScheduleSpec{}, httpapi.ScheduleSpec{}}, {client.Schedule{}, httpapi.Schedule{}},
		{client.ScheduledRun{}, host.ScheduledRun{}}, {client.ScheduleMiss{}, host.ScheduleMiss{}},
		{client.ScheduleBackfill{}, host.ScheduleBackfill{}}, {client.ScheduleInstant{}, host.ScheduleInstant{}},
		{client.WorkflowLimit{}, host.WorkflowLimitInfo{}}, {client.HandlerLimit{}, host.HandlerLimitInfo{}},
		{client.StartWindow{}, host.StartWindow{}}, {client.Retention{}, httpapi.Retention{}}, {client.Token{}, host.Token{}},
		{client.TokenRequest{}, httpapi.TokenRequest{}}, {client.Quota{}, host.Quota{}}, {client.Usage{}, host.Usage{}},
		{client.Namespace{}, host.NamespaceInfo{}}, {client.Fault{}, httpapi.Fault{}},
		{client.Build{}, httpapi.Build{}}, {client.Host{}, host.HostInfo{}},
	} {
		if got, want := shape(reflect.TypeOf(c.client)), shape(reflect.TypeOf(c.api)); got != want {
			t.Errorf("%T has the fields\n%s, %T has\n%s", c.client, got, c.api, want)
		}
	}
}

// shape returns the names of fields in JSON with the kinds of their values.
func shape(t reflect.Type) string {
	var all []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			all = append(all, shape(f.Type))
		case name != "" && name != "-":
			all = append(all, name+" "+kind(f.Type))
		}
	}
	return strings.Join(all, ", ")
}

// kind returns the JSON kind of a type.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return "any"
		}
		return "list of " + kind(t.Elem())
	case reflect.Map:
		return "object of " + kind(t.Elem())
	case reflect.Interface:
		return "any"
	case reflect.Struct:
		return "object"
	case reflect.Bool, reflect.String:
		return t.Kind().String()
	}
	if t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()) {
		return "string"
	}
	return "number"
}
