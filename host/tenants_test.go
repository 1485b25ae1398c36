package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// Names that one tenant uses in each of its records: a workflow, a run, a hook token, an attribute, a topic, a
// retention. Both names have the same length, so that answers may differ only in the name.
const (
	theirs   = "its-own-thing"
	nobody   = "no-such-thing"
	secretOf = "MARKER" // in payloads
)

// tenantModule is a workflow that uses the names and the marker wherever it can.
func tenantModule() []byte {
	m := wasmgen.New(0).Text(theirs).Text(secretOf).Call(abi.FnEmit).Drop()
	m.Text(theirs).Text(secretOf).Call(abi.FnSetAttribute).Drop()
	m.I32(1).Text(secretOf).Call(abi.FnLog).Drop()
	m.Text(theirs).Text(theirs).I32(0).I32(0).Call(abi.FnHookStart).Drop()
	m.Text(theirs).I64(86_400_000).Call(abi.FnSleep).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// tenants are two namespaces of a host: the owner has one of everything, and the other one asks for it.
type tenants struct {
	*hosttest.Host
	t           *testing.T
	owner, asks *host.Namespace
}

func newTenants(t *testing.T, owner, asks string) *tenants {
	x := &tenants{Host: hosttest.New(t), t: t}
	var err error
	x.owner, err = x.Namespace(ctx, owner)
	do(t, err)
	x.asks, err = x.Namespace(ctx, asks)
	do(t, err)
	_, err = x.owner.Upload(ctx, theirs, tenantModule())
	do(t, err)
	_, err = x.owner.StartRaw(ctx, theirs, []byte(`"`+secretOf+`"`), host.WithRunID(theirs), host.WithSignal(theirs, secretOf),
		host.WithAttributes(map[string]string{"a": secretOf}))
	do(t, err)
	_, err = x.owner.StartRaw(ctx, theirs, nil, host.WithRunID(theirs+"2"))
	do(t, err)
	do(t, x.owner.Terminate(ctx, theirs+"2"))
	do(t, x.owner.Retentions().Set(ctx, host.Retention{Workflow: theirs, Keep: 5}))
	_, err = x.owner.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: theirs, Concurrency: []string{"777"}})
	do(t, err)
	do(t, x.SetQuota(ctx, owner, host.Quota{MaxRuns: 77_777}))
	_, err = x.owner.Schedules().Create(ctx, theirs, host.ScheduleSpec{Workflow: theirs, When: "@monthly", Input: []byte(`"` + secretOf + `"`)})
	do(t, err)
	_, err = x.owner.HandlerLimits().Set(ctx, host.HandlerLimit{Handler: theirs, Concurrency: []string{"777"}})
	do(t, err)
	_, err = x.owner.StartWindows().Set(ctx, host.StartWindow{Workflow: theirs, Throttle: "777h"})
	do(t, err)
	_, err = x.asks.Upload(ctx, "other", napModule())
	do(t, err)
	_, err = x.asks.StartRaw(ctx, "other", []byte("2d"), host.WithRunID("other"))
	do(t, err)
	x.Settle()
	return x
}

// argument returns an argument for a method.
func (x *tenants) argument(method string, in reflect.Type, name string, n int) reflect.Value {
	v := reflect.New(in).Elem()
	switch a := v.Addr().Interface().(type) {
	case *context.Context:
		*a = ctx
		if method == "FollowRuns" { // it never ends; see TestFollowRuns
			done, cancel := context.WithCancel(ctx)
			cancel()
			*a = done
		}
	case *func():
		*a = func() {}
	case *string:
		*a = name
	case *[]byte:
		*a = []byte(`"x"`)
		if strings.HasPrefix(method, "Upload") || method == "Check" { // of Workflows
			*a = napModule()
		}
	case *any:
		*a = "x"
	case *time.Time:
		*a = x.Clock.Now().AddDate(1, 0, 0)
	case *host.Query:
		*a = host.Query{Workflow: name}
		if n > 0 && name != "" {
			*a = host.Query{Attributes: map[string]string{name: secretOf}}
		}
	case *host.TimerQuery:
		a.Until = x.Clock.Now().AddDate(1, 0, 0)
	case *host.CheckOptions:
		*a = host.CheckOptions{Ended: 1000 * time.Hour}
	case *host.MigrateOptions:
		*a = host.MigrateOptions{To: 1, Runs: []string{name}}
	case *host.ScheduleSpec:
		*a = host.ScheduleSpec{Workflow: name, When: "@daily"}
		if name == "" { // a schedule of a workflow that does not exist
			a.Workflow = nobody
		}
	case *io.Writer:
		*a = io.Discard
	case *io.Reader:
		*a = strings.NewReader("no archive")
	case *host.ImportOptions:
		a.Adopt = n > 0
	case *host.ExportOptions:
		a.Move = n > 0
	case *host.Overlap:
		*a = host.OverlapAllow
	case *host.RestartOptions:
		*a = host.RestartOptions{Version: uint32(n)}
	case *host.TakeOptions, *host.Failure:
	case *json.RawMessage:
		*a = json.RawMessage("{}")
	case *time.Duration:
		*a = time.Duration(n) * time.Minute
	case *host.WorkflowLimit:
		*a = host.WorkflowLimit{Workflow: name, Concurrency: []string{fmt.Sprint(1 + n)}}
	case *host.HandlerLimit:
		*a = host.HandlerLimit{Handler: name, Concurrency: []string{fmt.Sprint(1 + n)}}
	case *host.StartWindow:
		*a = host.StartWindow{Workflow: name, Throttle: fmt.Sprint(1+n, "h")}
	case *host.Retention:
		*a = host.Retention{Workflow: name, Keep: 1 + n}
	default:
		switch {
		case v.CanInt():
			v.SetInt(int64(n))
		case v.CanUint():
			v.SetUint(uint64(n))
		case v.Kind() == reflect.Bool:
			v.SetBool(n > 0)
		default:
			x.t.Fatalf("%s takes a %v: say in this test what it is to be called with", method, in)
		}
	}
	return v
}

// random matches what differs between two equal calls: the ids of runs.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// call calls a method as the asking tenant, and returns the whole answer as text.
func (x *tenants) call(method string, name string, n int) string {
	x.t.Helper()
	of := reflect.ValueOf(x.asks)
	if noun, name, ok := strings.Cut(method, "."); ok {
		of, method = of.MethodByName(noun).Call(nil)[0], name
	}
	f := of.MethodByName(method)
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		if !f.Type().IsVariadic() || i < f.Type().NumIn()-1 {
			args = append(args, x.argument(method, f.Type().In(i), name, n))
		}
	}
	var b strings.Builder
	for _, out := range f.Call(args) {
		x.show(&b, out)
	}
	x.Settle()
	return random.ReplaceAllString(b.String(), "ID")
}

// show formats an answer as text, including the kinds of errors.
func (x *tenants) show(b *strings.Builder, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Func && v.Type().NumIn() == 0: // the end of a watch
		v.Call(nil)
	case v.Kind() == reflect.Func: // an iterator
		yield := v.Type().In(0)
		v.Call([]reflect.Value{reflect.MakeFunc(yield, func(args []reflect.Value) []reflect.Value {
			for _, a := range args {
				x.show(b, a)
			}
			return []reflect.Value{reflect.ValueOf(true)}
		})})
	case v.Kind() == reflect.Chan:
		_, open := v.TryRecv()
		fmt.Fprintln(b, "channel", open)
	default:
		if err, ok := v.Interface().(error); ok {
			fmt.Fprintf(b, "error %v", err)
			for _, is := range []error{host.ErrNotFound, host.ErrConflict, host.ErrTerminal, host.ErrInvalid, host.ErrBusy, host.ErrLimit,
				host.ErrRejected, host.ErrMismatch} {
				fmt.Fprint(b, " ", errors.Is(err, is))
			}
			fmt.Fprintln(b)
			return
		}
		text, err := json.Marshal(v.Interface())
		fmt.Fprintf(b, "%s %v %+v\n", text, err, v.Interface())
	}
}

// owned is all that the owner has.
func (x *tenants) owned() string {
	before := x.asks
	defer func() { x.asks = before }()
	x.asks = x.owner
	var b strings.Builder
	for _, method := range []string{"Runs", "Get", "Journal", "Logs", "Output", "Counts", "Timers", "Quota", "Usage", "SignalsOf",
		"Workflows.Versions", "Workflows.Version", "Retentions.List", "Schedules.Get", "Schedules.List", "WorkflowLimits.Get",
		"WorkflowLimits.List"} {
		name := theirs
		if method == "Output" {
			chunks, err := collect(x.owner.Output(ctx, theirs, "", 0))
			fmt.Fprint(&b, chunks, err)
			continue
		}
		fmt.Fprintf(&b, "%s %s", method, x.call(method, name, 0))
	}
	return b.String()
}

// tenantMethods returns the names of the methods of a namespace, and of its nouns, as in "Schedules.Create".
func tenantMethods(t *testing.T) (list []string) {
	nouns := 0
	for m := range reflect.TypeFor[*host.Namespace]().Methods() {
		if m.Type.NumIn() > 1 || m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.Struct {
			list = append(list, m.Name)
			continue
		}
		nouns++
		for of := range m.Type.Out(0).Methods() {
			list = append(list, m.Name+"."+of.Name)
		}
	}
	if nouns != 8 || len(list) < 85 {
		t.Fatalf("%d methods of %d nouns were found: %v", len(list), nouns, list)
	}
	return list
}

// TestTenants calls every method of a namespace with names that another tenant uses, and with names that do not
// exist. The answers differ only in the name, reveal nothing of the other tenant, and change nothing. New methods are
// covered automatically.
func TestTenants(t *testing.T) {
	for _, names := range [][2]string{{"a", "b"}, {"default", "b"}, {"a", "default"}} {
		for _, method := range tenantMethods(t) {
			x := newTenants(t, names[0], names[1])
			before := x.owned()
			if !strings.Contains(before, secretOf) || !strings.Contains(before, "77777") {
				t.Fatalf("the owner has nothing: %s", before)
			}
			for n := range 2 {
				without, with := x.call(method, nobody, n), x.call(method, theirs, n)
				if same := strings.ReplaceAll(with, theirs, nobody); same != without {
					t.Errorf("%s(%d) of %v: what another tenant has:\n%s\nwhat nobody has:\n%s", method, n, names, with, without)
				}
				all := x.call(method, "", n)
				for _, text := range []string{with, strings.ReplaceAll(without, nobody, ""), all} {
					if strings.Contains(text, secretOf) || strings.Contains(text, "77777") {
						t.Errorf("%s(%d) of %v says what another tenant has: %s", method, n, names, text)
					}
				}
				if after := x.owned(); after != before {
					t.Fatalf("%s(%d) of %v has changed what another tenant has:\n%s\n%s", method, n, names, before, after)
				}
			}
		}
	}
}

// TestUsageOfTenants compares the listed usage and quota of each namespace.
func TestUsageOfTenants(t *testing.T) {
	x := newTenants(t, "a", "b")
	list, err := x.Namespaces(ctx)
	do(t, err)
	of := map[string]host.NamespaceInfo{}
	for _, n := range list {
		of[n.Name] = n
	}
	if got := slices.Sorted(maps.Keys(of)); !slices.Equal(got, []string{"a", "b", "default"}) {
		t.Error(got)
	}
	if of["a"].Usage.Runs != 1 || of["b"].Usage.Runs != 1 || of["default"].Usage != (host.Usage{}) || of["b"].Quota.MaxRuns == 77_777 {
		t.Errorf("%+v", of)
	}
}
