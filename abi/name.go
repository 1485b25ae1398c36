package abi

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckName says whether text may name a step, sleep, child, marker, signal, hook, topic or attribute: UTF-8 of
// 1 to MaxNameBytes bytes without control characters, not beginning with a reserved prefix. what says in the
// error which name it was, such as "sleep name". The error is an *Error of code InvalidArgument.
func CheckName(what, name string) error {
	if err := checkText(what, name); err != nil {
		return err
	}
	for _, prefix := range []string{"wasi/", HandlerPrefix} {
		if strings.HasPrefix(name, prefix) {
			return Errorf(InvalidArgument, "%s must not begin with the reserved %q, got %q", what, prefix, name)
		}
	}
	return nil
}

// CheckHandler is CheckName for the name of a handler, which may begin with HandlerPrefix.
func CheckHandler(name string) error { return checkText("handler name", name) }

func checkText(what, text string) error {
	switch {
	case text == "":
		return Errorf(InvalidArgument, "%s is empty", what)
	case len(text) > MaxNameBytes:
		return Errorf(InvalidArgument, "%s has %d bytes, the limit is %d", what, len(text), MaxNameBytes)
	case !utf8.ValidString(text):
		return Errorf(InvalidArgument, "%s is not valid UTF-8: %q", what, text)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return Errorf(InvalidArgument, "%s has the control character %U at byte %d: %q", what, r, i, text)
		}
	}
	return nil
}

// CheckRunID says whether text may be the id of a run: 1 to MaxRunIDBytes of A-Z a-z 0-9 . _ : ~ -
func CheckRunID(id string) error {
	if id == "" || len(id) > MaxRunIDBytes {
		return Errorf(InvalidArgument, "run id must have 1 to %d bytes, got %d", MaxRunIDBytes, len(id))
	}
	for i := range len(id) {
		if !alphanumeric(id[i]) && !strings.ContainsRune("._:~-", rune(id[i])) {
			return Errorf(InvalidArgument, "run id may hold letters, digits and . _ : ~ -, got %q in %q", id[i:i+1], id)
		}
	}
	return nil
}

// MaxWorkflowBytes bounds workflow names, which are part of URLs, file names and keys.
const MaxWorkflowBytes = 128

// CheckWorkflow says whether text may be the name of a workflow: 1 to MaxWorkflowBytes of A-Z a-z 0-9 . _ -
// beginning with a letter or digit.
func CheckWorkflow(name string) error {
	if name == "" || len(name) > MaxWorkflowBytes {
		return Errorf(InvalidArgument, "workflow name must have 1 to %d bytes, got %d", MaxWorkflowBytes, len(name))
	}
	if !alphanumeric(name[0]) {
		return Errorf(InvalidArgument, "workflow name must begin with a letter or digit, got %q", name)
	}
	for i := range len(name) {
		if !alphanumeric(name[i]) && !strings.ContainsRune("._-", rune(name[i])) {
			return Errorf(InvalidArgument, "workflow name may hold letters, digits and . _ -, got %q in %q",
				name[i:i+1], name)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
