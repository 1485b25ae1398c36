package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestWhere selects runs by comparing attributes, across all pages, and refuses values without an order.
func TestWhere(t *testing.T) {
	p := newPrims(t)
	for id, a := range map[string]map[string]string{
		"low":   {"amount": "-5", "due": host.AttributeText(time.Date(2026, 1, 1, 0, 0, 0, 999, time.UTC))},
		"mid":   {"amount": host.AttributeText(100), "due": "2026-01-01T03:00:00+02:00"},
		"high":  {"amount": host.AttributeText(int64(1000)), "due": "2026-06-01T00:00:00.5Z", "paid": host.AttributeText(true)},
		"most":  {"amount": "9223372036854775807"},
		"text":  {"amount": "many", "due": "soon"},
		"zeros": {"amount": "0100"},
		"none":  nil,
	} {
		p.begin("receive", 1, host.WithRunID(id), host.WithAttributes(a))
	}
	for _, c := range []struct{ where, want string }{
		{"amount>=100", "high mid most"}, {"amount>100", "high most"}, {"amount<100", "low"}, {"amount<=100", "low mid"},
		{"amount=100", "mid"}, {"amount=0100", "zeros"}, {"amount=many", "text"}, {"amount>=-5 amount<1000", "low mid"},
		{"amount>9223372036854775807", ""}, {"amount<-9223372036854775808", ""}, {"amount>=9223372036854775807", "most"},
		{"due<2026-01-01T01:00:00Z", "low"}, {"due<=2026-01-01T01:00:00Z", "low mid"}, {"due=2026-01-01T00:00:00Z", "low"},
		{"due>2026-06-01T00:00:00Z", "high"}, {"due>=2026-01-01T00:00:00Z paid=true", "high"}, {"due>=0", ""}, {"paid=false", ""},
		{"amount>=100 amount=100", "mid"}, {"amount=100 amount=1000", ""},
	} {
		q := host.Query{Limit: 1}
		for text := range strings.FieldsSeq(c.where) {
			cond, err := host.ParseCondition(text)
			if err != nil {
				t.Fatal(err)
			}
			q.Where = append(q.Where, cond)
		}
		var got []string
		for n := 0; n == 0 || q.Cursor != ""; n++ {
			page, err := p.RunPage(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Runs {
				got = append(got, r.ID)
			}
			q.Cursor = page.Next
		}
		slices.Sort(got)
		want(t, c.where+": "+strings.Join(got, " "), c.where+": "+c.want)
	}
	for _, text := range []string{"", "amount", "=5", "amount>", "amount>many", "amount>1.5", "amount>9223372036854775808",
		"a\n=5", "amount>+5"} {
		if _, err := host.ParseCondition(text); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, sign := range map[string]string{"amount!=5": "!=", "amount=>5": "=>", "amount=<5": "=<", "amount==5": "==", "amount ~= x": "~=",
		"amount =~x": "=~", "amount := 5": ":=", "amount<>5": "<>", "amount>>5": ">>", "amount===5": "=="} {
		_, err := host.ParseCondition(text)
		if !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q is no comparison", sign)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	spaced, err := host.ParseCondition(" amount >= 100 ")
	if do(t, err); spaced != (host.Condition{Key: "amount", Op: host.AtLeast, Value: "100"}) {
		t.Errorf("%+v", spaced)
	}
	for _, q := range []host.Query{{Where: []host.Condition{{Key: "a", Op: "~", Value: "5"}}}, {Where: make([]host.Condition, 65)}} {
		if _, err := p.RunPage(ctx, q); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%d conditions: %v", len(q.Where), err)
		}
	}
}

// TestTypedAttributes sets attributes of each type in a workflow.
func TestTypedAttributes(t *testing.T) {
	p := newPrims(t)
	id := p.begin("typed", 0)
	r := p.Finish(id)
	want(t, fmt.Sprint(r.Attributes), "map[at:2026-02-03T04:05:06.007Z big:-9 n:7 ok:true text:x]")
}
