package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Number converts a JSON number: to an int if it is an integer of 64 bits, to a float64 if that has the same digits, and
// otherwise to a json.Number. A json.Number is passed on as it is written, and expressions cannot compute with it.
func Number(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil && text != "-0" {
		return int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !sameNumber(text, strconv.FormatFloat(f, 'e', -1, 64)) {
		return json.Number(text)
	}
	return f
}

// CheckNumber returns an error if a number has neither an int nor a float64 that keeps its digits.
func CheckNumber(text string) error {
	n, kept := Number(text).(json.Number)
	switch {
	case !kept:
		return nil
	case !strings.ContainsAny(text, ".eE"):
		return fmt.Errorf("the number %.40s is not in the range of 64 bits: write it in quotes if it is a text", text)
	}
	if f, err := n.Float64(); err != nil && math.IsInf(f, 0) {
		return fmt.Errorf("the number %.40s is too large", text)
	}
	return fmt.Errorf("the number %.40s has more digits than 64 bits keep: write it in quotes if it is a text", text)
}

// sameNumber reports whether two JSON numbers are equal.
func sameNumber(a, b string) bool {
	x, xe, ok := digitsOf(a)
	y, ye, also := digitsOf(b)
	return ok && also && x == y && xe == ye
}

// digitsOf returns the digits of a number with their sign, without zeros at either end, and the exponent of ten of the last
// digit.
func digitsOf(text string) (digits string, exponent int, ok bool) {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.Atoi(strings.TrimPrefix(text[i+1:], "+"))
		if err != nil {
			return "", 0, false
		}
		text, exponent = text[:i], e
	}
	whole, fraction, _ := strings.Cut(text, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(digits, "0")
	if kept == "" {
		return sign, 0, true
	}
	return sign + kept, exponent + len(digits) - len(kept), true
}

// whole returns the value of any of Go's integer types.
func whole(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	case int32:
		return int(v), true
	case uint8:
		return int(v), true
	}
	return 0, false
}

// operand returns an operand as an int or a float64. number is false for other values. Expressions cannot compute
// with a json.Number: operand returns an error for it.
func operand(v any) (i int, f float64, isInt, number bool, err error) {
	if i, ok := whole(v); ok {
		return i, 0, true, true, nil
	}
	switch v := v.(type) {
	case float64:
		return 0, v, false, true, nil
	case float32:
		return 0, float64(v), false, true, nil
	case json.Number:
		return 0, 0, false, false, unfit(v)
	}
	return 0, 0, false, false, nil
}

func unfit(n json.Number) error {
	return fmt.Errorf("the number %.40s cannot be computed with: it does not fit into 64 bits", string(n))
}

// asFloat converts an int to a float64. It returns an error beyond 2^53 or -2^53: a float64 cannot hold all of these integers,
// and is written differently.
func asFloat(i int) (float64, error) {
	f := float64(i)
	if i > 1<<53 || i < -1<<53 {
		return 0, fmt.Errorf("the whole number %d cannot be computed with as a fraction, which keeps 53 bits of it", i)
	}
	return f, nil
}

// arithmetic computes + - * of integers. It returns an error if the result does not fit.
func arithmetic(op string, a, b int) (int, error) {
	x, y := big.NewInt(int64(a)), big.NewInt(int64(b))
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		x.Add(x, y)
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		x.Sub(x, y)
	default:
		x.Mul(x, y)
	}
	if !x.IsInt64() {
		return 0, fmt.Errorf("%d %s %d does not fit into 64 bits", a, op, b)
	}
	return int(x.Int64()), nil
}

// maxPower limits the exponents of integers: for a base of 2 or more, no greater power fits into 64 bits.
const maxPower = 64

// power computes a power of integers. As in the language, the result is a float64 if that is exact.
func power(a, b int) (any, error) {
	if b < 0 || a >= -1 && a <= 1 {
		x, err := asFloat(a)
		return math.Pow(x, float64(b)), err
	}
	if b <= maxPower {
		c := new(big.Int).Exp(big.NewInt(int64(a)), big.NewInt(int64(b)), nil)
		if c.IsInt64() {
			if f, err := asFloat(int(c.Int64())); err == nil {
				return f, nil
			}
			return int(c.Int64()), nil
		}
	}
	return nil, fmt.Errorf("%d ** %d does not fit into 64 bits: write %d.0 for a fraction", a, b, a)
}

// quotient divides integers. As in the language, the result is a float64; it is an int if only that is exact.
func quotient(a, b int) (any, error) {
	x, err := asFloat(a)
	y, err2 := asFloat(b)
	switch {
	case err == nil && err2 == nil:
		return x / y, nil
	case b != 0 && a%b == 0 && !(a == math.MinInt64 && b == -1):
		return a / b, nil
	case err == nil:
		err = err2
	}
	return nil, err
}

// compareMixed compares an int with a float64 exactly. It returns -1, 0 or 1.
func compareMixed(i int, f float64) int {
	switch {
	case f >= -math.MinInt64:
		return -1
	case f < math.MinInt64:
		return 1
	}
	t := int(math.Trunc(f))
	switch {
	case i < t, i == t && f > math.Trunc(f):
		return -1
	case i > t, i == t && f < math.Trunc(f):
		return 1
	}
	return 0
}
