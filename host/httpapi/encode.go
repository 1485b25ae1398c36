package httpapi

import (
	"io"
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
	Unmarshal: huma.DefaultJSONFormat.Unmarshal}
