package host_test

import (
	"reflect"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestJoinEvents calls each event of two joined embedders: both get it with the same arguments, in order. An event
// without a listener stays nil.
func TestJoinEvents(t *testing.T) {
	var heard []string
	full := func(who string) (e host.Events) {
		v := reflect.ValueOf(&e).Elem()
		for i := range v.NumField() {
			v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
				if !reflect.DeepEqual(args[0].Interface(), sample(args[0].Type()).Interface()) {
					t.Errorf("%s is given %v", v.Type().Field(i).Name, args[0])
				}
				heard = append(heard, who)
				return nil
			}))
		}
		return e
	}
	for name, c := range map[string]struct {
		of   host.Events
		want []string
	}{
		"both":   {host.JoinEvents(full("a"), full("b")), []string{"a", "b"}},
		"first":  {host.JoinEvents(full("a"), host.Events{}), []string{"a"}},
		"second": {host.JoinEvents(host.Events{}, full("b")), []string{"b"}},
		"nobody": {host.JoinEvents(host.Events{}, host.Events{}), nil},
	} {
		v := reflect.ValueOf(c.of)
		for i := range v.NumField() {
			heard = nil
			if f := v.Field(i); !f.IsNil() {
				args := []reflect.Value{sample(f.Type().In(0))}
				for j := 1; j < f.Type().NumIn(); j++ {
					args = append(args, reflect.Zero(f.Type().In(j)))
				}
				f.Call(args)
			}
			if !reflect.DeepEqual(heard, c.want) {
				t.Errorf("%s: %s was heard by %v, want %v", name, v.Type().Field(i).Name, heard, c.want)
			}
		}
	}
}

// sample returns a non-zero value of a type, where possible.
func sample(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int:
		v.SetInt(7)
	case reflect.Struct:
		for i := range of.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String && f.CanSet() {
				f.SetString("x")
			}
		}
	}
	return v
}
