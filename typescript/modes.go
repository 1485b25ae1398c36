package typescript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/wfhost/wfhost/typescript/engine"
)

// wrapper matches the beginning of the function into which a bundle puts a CommonJS file.
var wrapper = regexp.MustCompile(`(?m)^ *(var|let) \w+ = __commonJS\(\{\n *"(?:[^"\\\n]|\\.)*"\([\w$, ]*\) \{$`)

// markSloppy marks the CommonJS files of a bundle as sloppy: they are not strict code, unless they say so. Modules are strict,
// and so is the bundle. The marks are at the ends of lines, so that places in the source map stay valid.
func markSloppy(text []byte) []byte {
	return wrapper.ReplaceAllFunc(text, func(line []byte) []byte {
		return append(slices.Clip(line), `"use sloppy";`...)
	})
}

const (
	bundledRequire = "typeof __require"
	noRequire      = "typeof   require" // has the same length, so that places stay valid
)

// hideRequire makes typeof require "undefined" in modules, as in Node. A bundle would give them a function that resolves
// nothing. CommonJS files keep that function. meta is the bundle's metafile; files and places are from its source map.
func hideRequire(text []byte, meta string, files []string, places []engine.Place) ([]byte, error) {
	if !bytes.Contains(text, []byte(bundledRequire)) {
		return text, nil
	}
	var m struct {
		Inputs map[string]struct {
			Format string `json:"format"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(meta), &m); err != nil {
		return nil, err
	}
	text = bytes.Clone(text)
	for line, start := uint32(0), 0; start < len(text); line++ {
		end := len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i
		}
		for at := start; ; at += len(bundledRequire) {
			i := bytes.Index(text[at:end], []byte(bundledRequire))
			if i < 0 {
				break
			}
			at += i
			if file := fileAt(places, files, line, uint32(at-start+len("typeof "))); m.Inputs[file].Format == "esm" {
				copy(text[at:], noRequire)
			}
		}
		start = end + 1
	}
	return text, nil
}

// fileAt returns the source file of the token that begins at a line and column of a bundle. It returns "" if no token begins
// there, for example within a string.
func fileAt(places []engine.Place, files []string, line, column uint32) string {
	i, ok := slices.BinarySearchFunc(places, engine.Place{Line: line, Column: column}, func(a, b engine.Place) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if !ok || places[i].File == 0 {
		return ""
	}
	return files[places[i].File-1]
}
