package schema

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// english words what the library says.
var english = message.NewPrinter(language.English)

// maxWords is how long the sentence of a fault may be: it may hold values of enums.
const maxWords = 300

// faults returns what is wrong at the ends of the library's tree of errors: of branches that were tried, that of the first.
func faults(v *jsonschema.ValidationError) *Error {
	var all []Fault
	collect(v, &all)
	all = sorted(all)
	e := &Error{Faults: all}
	if len(all) > MaxFaults {
		e.Faults, e.More = all[:MaxFaults:MaxFaults], len(all)-MaxFaults
	}
	return e
}

func collect(v *jsonschema.ValidationError, to *[]Fault) {
	at := pointer(v.InstanceLocation)
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*to = append(*to, Fault{at + pointer([]string{name}), "is missing"})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*to = append(*to, Fault{at + pointer([]string{name}), "is not known here"})
		}
	case *kind.Type:
		*to = append(*to, Fault{at, fmt.Sprintf("must be %s, got %s", strings.Join(k.Want, " or "), k.Got)})
	case *kind.FalseSchema:
		*to = append(*to, Fault{at, "must not be there"})
	case *kind.Not:
		*to = append(*to, Fault{at, "must not be like this"})
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			*to = append(*to, Fault{at, fmt.Sprintf("fits more than one of what it may be: %d and %d, counted from 0", k.Subschemas[0],
				k.Subschemas[1])})
			return
		}
		*to = append(*to, Fault{at, "fits none of what it may be: " + branches(v)})
	case *kind.AnyOf:
		*to = append(*to, Fault{at, "fits none of what it may be: " + branches(v)})
	default:
		if len(v.Causes) == 0 {
			words := v.ErrorKind.LocalizedString(english)
			if len(words) > maxWords {
				words = strings.ToValidUTF8(words[:maxWords], "") + "…"
			}
			*to = append(*to, Fault{at, words})
		}
		for _, c := range v.Causes {
			collect(c, to)
		}
	}
}

// branches says why none of the branches fits, each by its first fault.
func branches(v *jsonschema.ValidationError) string {
	var why []string
	for _, c := range v.Causes {
		if len(why) == 3 {
			return strings.Join(append(why, "…"), "; or ")
		}
		var of []Fault
		collect(c, &of)
		if of = sorted(of); len(of) > 0 {
			why = append(why, strings.TrimSpace(strings.TrimPrefix(of[0].Pointer, pointer(v.InstanceLocation))+" "+of[0].Message))
		}
	}
	return strings.Join(why, "; or ")
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(p))
	}
	return b.String()
}
