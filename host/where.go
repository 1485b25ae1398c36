package host

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// MaxConditions bounds the conditions of a query. Each condition is checked for each run. It is the bound of
// attributes, since no query needs more.
const MaxConditions = abi.MaxAttributes

// Comparison is how a condition compares.
type Comparison string

// The comparisons.
const (
	Equal   Comparison = "=" // the same text
	Less    Comparison = "<" // this and the following ones compare integers, or instants
	AtMost  Comparison = "<="
	More    Comparison = ">"
	AtLeast Comparison = ">="
)

// Condition compares an attribute of a run with a value. The type of an attribute follows from its text: an integer
// (42, with 64 bits, without a plus sign or leading zeros), an instant (2026-01-31T12:00:00Z, RFC 3339, in any zone),
// or neither. Comparisons other than Equal need an integer or an instant, and select runs whose attribute has the
// same type. Instants are compared to the millisecond.
type Condition struct {
	Key   string
	Op    Comparison
	Value string
}

// ParseCondition reads KEY=VALUE, KEY<VALUE, KEY<=VALUE, KEY>VALUE or KEY>=VALUE. The key ends at the first of these
// signs. Blanks around the sign are ignored. ErrInvalid if the text is not a condition, if its value cannot be
// compared, or if it looks like a comparison of another language, such as != or ==, which would select no runs. A
// Condition may have any key and value.
func ParseCondition(text string) (c Condition, err error) {
	i := strings.IndexAny(text, "=<>")
	if i < 1 {
		return c, &joined{fmt.Errorf("a condition is such as amount>=100, with one of = < <= > >=, got %.300q", text), ErrInvalid}
	}
	n := 1
	if rest := text[i+1:]; text[i] != '=' && strings.HasPrefix(rest, "=") {
		n = 2
	}
	c = Condition{Key: strings.Trim(text[:i], " "), Op: Comparison(text[i : i+n]), Value: strings.Trim(text[i+n:], " ")}
	if sign := c.foreign(); sign != "" {
		return c, &joined{fmt.Errorf("%.300q: %q is no comparison of attributes; these are = < <= > >=", text, sign), ErrInvalid}
	}
	return c, c.into(&store.Query{})
}

// foreign returns the comparison of another language in a condition, empty if there is none.
func (c *Condition) foreign() string {
	for _, sign := range []string{"!", "~", ":"} {
		if strings.HasSuffix(c.Key, sign) && c.Op == Equal {
			return sign + "="
		}
	}
	for _, sign := range []string{"=", "<", ">", "~"} {
		if strings.HasPrefix(c.Value, sign) {
			return string(c.Op) + sign
		}
	}
	return ""
}

// into adds the condition to a query.
func (c *Condition) into(q *store.Query) error {
	if err := abi.CheckAttribute(c.Key, c.Value); err != nil {
		return translate(err)
	}
	if c.Op == Equal {
		q.Attributes = append(q.Attributes, store.Attribute{Key: c.Key, Value: c.Value})
		return nil
	}
	v, of := store.ValueOf(c.Value)
	if of == store.TypeText {
		return &joined{fmt.Errorf("%s%s compares integers of 64 bits such as 100, and instants such as 2026-01-31T12:00:00Z, "+
			"got %.300q", c.Key, c.Op, c.Value), ErrInvalid}
	}
	r := store.Range{Key: c.Key, Type: of, From: math.MinInt64, To: math.MaxInt64}
	nothing := false
	switch c.Op {
	case AtLeast:
		r.From = v
	case AtMost:
		r.To = v
	case More:
		r.From, nothing = v+1, v == math.MaxInt64
	case Less:
		r.To, nothing = v-1, v == math.MinInt64
	default:
		return &joined{fmt.Errorf("attribute %q: the comparison must be one of = < <= > >=, got %.80q", c.Key, c.Op), ErrInvalid}
	}
	if nothing { // no attribute is beyond the last integer
		r.From, r.To = 1, 0
	}
	q.Ranges = append(q.Ranges, r)
	return nil
}

// AttributeText returns the text of an attribute's value as conditions compare it: integers in decimal, instants in RFC
// 3339 and UTC to the millisecond, true or false.
func AttributeText[T string | bool | int | int64 | time.Time](value T) string {
	switch v := any(value).(type) {
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return v.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value)
}
