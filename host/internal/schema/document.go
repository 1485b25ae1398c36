package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxParts is how many schemas a schema may consist of. The library's time to compile them grows with the square.
	MaxParts = 2000
	// maxPointers bounds the total bytes of the JSON pointers of these schemas: the library keeps them, and reads them at
	// each level.
	maxPointers = 1 << 20
	// maxCount bounds minLength and similar keywords. The library misreads larger numbers.
	maxCount = 1 << 53
)

// The keywords that hold one schema, a list of schemas, or an object of schemas.
var (
	oneSchema = []string{"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
		"unevaluatedItems", "unevaluatedProperties"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMaps  = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
	// counts are the keywords that hold non-negative integers.
	counts = []string{"maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength",
		"minProperties"}
	// unknown are keywords that matter only for schemas assembled from several documents.
	unknown = []string{"$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
)

// document walks through the text of a schema before the library sees it. The values of const, enum, default and
// examples are not schemas, and are skipped.
type document struct {
	parts    map[string]bool // JSON pointers of all schemas in it
	anchors  map[string]bool
	refs     []string
	enums    int
	pointers int // total bytes of the pointers
}

// readDocument walks through a schema, and returns an error if it is wrong or exceeds a limit. It deletes an $id at the
// top, which has no effect here.
func readDocument(doc any) (*document, error) {
	d := &document{parts: map[string]bool{}, anchors: map[string]bool{}}
	if top, ok := doc.(map[string]any); ok {
		if id, ok := top["$id"]; ok {
			if _, ok := id.(string); !ok {
				return nil, fmt.Errorf("the schema is none: /$id: must be string")
			}
			delete(top, "$id")
		}
	}
	if err := d.schema(doc, ""); err != nil {
		return nil, err
	}
	for _, ref := range d.refs {
		if err := d.leads(ref); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *document) schema(v any, at string) error {
	d.parts[at] = true
	if len(d.parts) > MaxParts {
		return fmt.Errorf("the schema consists of more than %d schemas", MaxParts)
	}
	d.pointers += len(at)
	if d.pointers > maxPointers {
		return fmt.Errorf("the pointers of the parts of the schema have more than %d bytes together", maxPointers)
	}
	of, ok := v.(map[string]any)
	if !ok {
		return nil // true, false, or a value that the library refuses
	}
	if err := d.keywords(of, at); err != nil {
		return err
	}
	for _, k := range oneSchema {
		if x, ok := of[k]; ok {
			if err := d.schema(x, at+"/"+k); err != nil {
				return err
			}
		}
	}
	for _, k := range schemaLists {
		list, _ := of[k].([]any)
		for i, x := range list {
			if err := d.schema(x, at+"/"+k+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	for _, k := range schemaMaps {
		all, _ := of[k].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if _, names := all[name].([]any); names && k == "dependencies" {
				continue
			}
			if err := d.schema(all[name], at+"/"+k+"/"+escape.Replace(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keywords checks the keywords of one schema that hold no schemas.
func (d *document) keywords(of map[string]any, at string) error {
	if dialect, ok := of["$schema"].(string); ok && strings.TrimSuffix(dialect, "#") != draft {
		return fmt.Errorf("the schema is of %q, only draft 2020-12 is known", dialect)
	}
	if _, ok := of["$id"]; ok {
		return fmt.Errorf("the schema has an $id at %s, which is known at the top only", shown(at))
	}
	for _, k := range unknown {
		if _, ok := of[k]; ok {
			return fmt.Errorf("the schema has %s at %s, which is not known here", k, shown(at))
		}
	}
	if name, ok := of["$anchor"].(string); ok {
		if d.anchors[name] {
			return fmt.Errorf("the schema has the anchor %q twice", name)
		}
		d.anchors[name] = true
	}
	if ref, ok := of["$ref"].(string); ok {
		d.refs = append(d.refs, ref)
	}
	for _, k := range counts {
		if n, ok := of[k].(json.Number); ok {
			if f, err := n.Float64(); err != nil || f > maxCount {
				return fmt.Errorf("%s of the schema at %s is over %d", k, shown(at), int64(maxCount))
			}
		}
	}
	e, _ := of["enum"].([]any)
	d.enums += len(e)
	if d.enums > MaxEnum {
		return fmt.Errorf("the enums of the schema have more than %d values", MaxEnum)
	}
	patterns, _ := of["patternProperties"].(map[string]any)
	for p := range patterns {
		if len(p) > MaxPattern {
			return longPattern(p)
		}
	}
	if p, ok := of["pattern"].(string); ok && len(p) > MaxPattern {
		return longPattern(p)
	}
	return nil
}

func longPattern(p string) error {
	return fmt.Errorf("a pattern of the schema has %d bytes, the limit is %d", len(p), MaxPattern)
}

// leads returns an error if a reference does not lead to a schema within the document.
func (d *document) leads(ref string) error {
	to, within := strings.CutPrefix(ref, "#")
	if !within && ref != "" {
		return fmt.Errorf("the reference %q is outside of the schema", ref)
	}
	name, err := url.PathUnescape(to)
	if err == nil && (d.parts[name] || d.anchors[name] && name != "") {
		return nil
	}
	return fmt.Errorf("the reference %q leads to no schema", ref)
}

// shown returns a pointer for an error message.
func shown(at string) string {
	if at == "" {
		return "its top"
	}
	return strconv.Quote(cut(at, maxPointer))
}
