package httpapi

import (
	"bytes"
	jsonv0 "encoding/json"
	"errors"
	"io"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// instantLayout is how the API writes instants: RFC 3339 in UTC with three decimals, which is what the host keeps. Texts of one
// length are compared as the instants are.
const instantLayout = "2006-01-02T15:04:05.000Z"

// options are those of encoding/json but for instants, and but for the escapes for pages of HTML, in which no answer stands.
var options = []json.Options{jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
		return e.WriteToken(jsontext.String(t.UTC().Format(instantLayout)))
	}))}

// marshal encodes a value as the API shows it.
func marshal(v any) ([]byte, error) { return json.Marshal(v, options...) }

// Encode writes a value as the API shows it, and a newline. With an indent, which is blanks or a tab, each element has a line.
func Encode(w io.Writer, v any, indent string) error {
	all := options
	if indent != "" {
		all = append(all[:len(all):len(all)], jsontext.WithIndent(indent))
	}
	b, err := json.Marshal(v, all...)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// format has huma write answers as the API shows them, and read bodies as before.
var format = huma.Format{Marshal: func(w io.Writer, v any) error { return Encode(w, v, "") },
	Unmarshal: decode}

// decode reads a body. Where huma decodes one only to check it, into an any, a number that a float64 does not hold is the
// greatest one that it holds: payloads within bodies may have any.
func decode(b []byte, into any) error {
	v, ok := into.(*any)
	if !ok {
		return huma.DefaultJSONFormat.Unmarshal(b, into)
	}
	d := jsonv0.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	*v = floats(*v)
	return nil
}

// floats replaces numbers by float64.
func floats(v any) any {
	switch v := v.(type) {
	case jsonv0.Number:
		f, _ := v.Float64() // out of range: infinite
		return min(max(f, -math.MaxFloat64), math.MaxFloat64)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}
