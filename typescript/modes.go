package typescript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/wfhost/wfhost/typescript/engine"
)

// wrapper matches the first line of the function that a bundle has in place of a CommonJS file.
var wrapper = regexp.MustCompile(`(?m)^ *(var|let) \w+ = __commonJS\(\{\n *"(?:[^"\\\n]|\\.)*"\([\w$, ]*\) \{$`)

// markSloppy marks the CommonJS files of a bundle, which are not strict code unless they say so. Modules are: so is the bundle.
// What is added stands at the end of lines, so that all places stay.
func markSloppy(text []byte) []byte {
	return wrapper.ReplaceAllFunc(text, func(line []byte) []byte {
		return append(slices.Clip(line), `"use sloppy";`...)
	})
}

const (
	bundledRequire = "typeof __require"
	noRequire      = "typeof   require" // as long, so that all places stay
)

// hideRequire lets modules see that they have no require, as in Node. A bundle gives them a function that resolves nothing.
// CommonJS files keep it. The meta file is that of the bundle, and files and places are those of its map.
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

// fileAt returns the file from which came what begins at a place of a bundle, and "" where nothing begins, as within a string.
func fileAt(places []engine.Place, files []string, line, column uint32) string {
	i, ok := slices.BinarySearchFunc(places, engine.Place{Line: line, Column: column}, func(a, b engine.Place) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if !ok || places[i].File == 0 {
		return ""
	}
	return files[places[i].File-1]
}
