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

// instantLayout is how the API writes instants: RFC 3339 in UTC with three decimals, the precision of the host. The
// texts have equal length and sort like the instants.
const instantLayout = "2006-01-02T15:04:05.000Z"

// options are the options of encoding/json, except that instants use instantLayout and that nothing is escaped for
// HTML: no answer is embedded in a page.
var options = []json.Options{jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false),
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, t time.Time) error {
		return e.WriteToken(jsontext.String(t.UTC().Format(instantLayout)))
	}))}

// marshal encodes a value as the API shows it.
func marshal(v any) ([]byte, error) { return json.Marshal(v, options...) }

// Encode writes a value as the API shows it, and a newline. With an indent, of blanks or a tab, each element has its
// own line.
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

// format makes huma write answers as the API shows them, and read bodies with decode.
var format = huma.Format{Marshal: func(w io.Writer, v any) error { return Encode(w, v, "") },
	Unmarshal: decode}

// decode reads a body. When huma decodes a body only to validate it, into an any, decode replaces numbers out of the
// range of float64 by the nearest float64: payloads within bodies may have any number.
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

// floats converts numbers to float64.
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
