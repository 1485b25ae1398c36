package validate

import (
	"errors"
	"unicode/utf8"
)

// notUTF8 is the rule that names must be UTF-8 (5.2.4).
const notUTF8 = "a name is not UTF-8"

// text reads a name of any length.
func (r *reader) text(what string) (string, error) {
	n, err := r.u32("the length of " + what)
	if err != nil {
		return "", err
	}
	if int64(n) > int64(r.left()) {
		return "", r.bad("the module is truncated", "%s claims %d bytes, %d are left", what, n, r.left())
	}
	s := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	if !utf8.Valid(s) {
		return "", r.bad(notUTF8, "%s", what)
	}
	return string(s), nil
}

// checkCustom checks that the name of a custom section, and the names in a name section, are UTF-8. Most custom
// sections are dropped before an engine sees the module, so no later check would notice. Other defects of a name
// section are no errors (7.4.1).
func checkCustom(r reader) error {
	name, err := r.text("the name of a custom section")
	if err != nil || name != "name" {
		return err
	}
	for r.left() > 0 {
		id, err := r.byte("names")
		if err != nil {
			return nil
		}
		n, err := r.u32("names")
		if err != nil || int64(n) > int64(r.left()) {
			return nil
		}
		part := r
		part.end = r.at + int(n)
		r.at = part.end
		var rejected *RejectError
		if err := part.names(id); errors.As(err, &rejected) && rejected.Rule == notUTF8 {
			return err
		}
	}
	return nil
}

// Subsections of names (7.4.1).
const (
	namesModule    = 0
	namesFunctions = 1
	namesLocals    = 2
)

// names reads one subsection.
func (r *reader) names(id byte) error {
	switch id {
	case namesModule:
		_, err := r.text("the name of the module")
		return err
	case namesFunctions:
		return r.nameMap("the name of a function")
	case namesLocals:
		n, err := r.u32("names")
		for ; n > 0 && err == nil; n-- {
			_, err = r.u32("names")
			if err == nil {
				err = r.nameMap("the name of a local")
			}
		}
		return err
	}
	return nil
}

// nameMap reads pairs of an index and a name.
func (r *reader) nameMap(what string) error {
	n, err := r.u32("names")
	for ; n > 0 && err == nil; n-- {
		_, err = r.u32("names")
		if err == nil {
			_, err = r.text(what)
		}
	}
	return err
}
