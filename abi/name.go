package abi

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wasiPrefix begins names that are kept for what the host journals on behalf of WASI.
const wasiPrefix = "wasi/"

// CheckName says whether text may name a step, sleep, child, marker, signal, hook, topic or attribute: UTF-8 of
// 1 to MaxNameBytes bytes without control characters, not beginning with "wasi/" or HandlerPrefix. what says in
// the error which name it was, such as "sleep name". The error is an *Error of code InvalidArgument.
func CheckName(what, name string) error {
	if err := checkText(what, name); err != nil {
		return err
	}
	return checkPrefix(what, name, HandlerPrefix)
}

// CheckUpdate says whether text may name an update: as CheckName, but of at most MaxUpdateNameBytes.
func CheckUpdate(name string) error {
	if len(name) > MaxUpdateNameBytes {
		return Errorf(InvalidArgument, "update name must have 1 to %d bytes, got %d", MaxUpdateNameBytes, len(name))
	}
	return CheckName("update name", name)
}

// CheckReceived says whether text may name a signal for which a workflow waits: as CheckName, but it may be UpdatePrefix with the
// name of an update, which nobody can send as a signal.
func CheckReceived(name string) error {
	if update, ok := strings.CutPrefix(name, UpdatePrefix); ok {
		return CheckUpdate(update)
	}
	return CheckName("signal name", name)
}

// CheckHandler says whether text may name a handler: as CheckName, but it may begin with HandlerPrefix. Whether
// there is a handler of that name is not its question.
func CheckHandler(name string) error { return checkText("handler name", name) }

func checkText(what, text string) error {
	if text == "" || len(text) > MaxNameBytes {
		return Errorf(InvalidArgument, "%s must have 1 to %d bytes, got %d", what, MaxNameBytes, len(text))
	}
	if !utf8.ValidString(text) {
		return Errorf(InvalidArgument, "%s must be UTF-8, got %s", what, quoted(text))
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return Errorf(InvalidArgument, "%s must not hold control characters, got %U at byte %d of %s",
				what, r, i, quoted(text))
		}
	}
	return checkPrefix(what, text, wasiPrefix)
}

func checkPrefix(what, text, prefix string) error {
	if strings.HasPrefix(text, prefix) {
		return Errorf(InvalidArgument, "%s must not begin with %q, which is reserved, got %s", what, prefix, quoted(text))
	}
	return nil
}

// CheckMarker says whether a marker may have an id, which is a name, and whether its version is 0 to 2,147,483,647. The error is
// an *Error of code InvalidArgument.
func CheckMarker(id string, version int64) error {
	if err := CheckName("marker", id); err != nil {
		return err
	}
	if version < 0 || version > math.MaxInt32 {
		return Errorf(InvalidArgument, "version of marker %q must be 0 to %d, got %d", id, math.MaxInt32, version)
	}
	return nil
}

// CheckRunID says whether text may be the id of a run: 1 to MaxRunIDBytes of A-Z a-z 0-9 . _ : ~ -
// The error is an *Error of code InvalidArgument.
func CheckRunID(id string) error {
	return checkAlphabet("run id", id, MaxRunIDBytes, "._:~-")
}

// MinTokenBytes is the least length of a chosen token: shorter ones are guessed by trying.
const MinTokenBytes = 8

// CheckToken says whether text may be a token of a hook: MinTokenBytes to MaxRunIDBytes of A-Z a-z 0-9 . _ : ~ -
// The error is an *Error of code InvalidArgument.
func CheckToken(token string) error {
	if len(token) < MinTokenBytes {
		return Errorf(InvalidArgument, "token must have %d to %d bytes, got %d", MinTokenBytes, MaxRunIDBytes, len(token))
	}
	return checkAlphabet("token", token, MaxRunIDBytes, "._:~-")
}

// CheckAttribute says whether a run may have this attribute: a key as CheckName wants it, and a value of at most
// MaxAttributeBytes of UTF-8 without control characters. The error is an *Error of code InvalidArgument or TooLarge.
func CheckAttribute(key, value string) error {
	if err := CheckName("attribute name", key); err != nil {
		return err
	}
	if len(value) > MaxAttributeBytes {
		return Errorf(TooLarge, "attribute %q has %d bytes, the limit is %d", key, len(value), MaxAttributeBytes)
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return Errorf(InvalidArgument, "attribute %q must be UTF-8 without control characters, got %s", key, quoted(value))
	}
	return nil
}

// shown writes in JSON as it is what package json escapes for pages: people see it, and its bytes count.
var shown = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// CheckMemo returns a memo without white space, and with <, > and & as they are. The error is an *Error of code
// InvalidArgument if it is no JSON in UTF-8, or TooLarge.
func CheckMemo(memo []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, memo); err != nil || !utf8.Valid(memo) {
		return nil, Errorf(InvalidArgument, "the memo must be JSON in UTF-8, got %s", quoted(string(memo)))
	}
	text := shown.Replace(b.String())
	if len(text) > MaxMemoBytes {
		return nil, Errorf(TooLarge, "the memo has %d bytes as JSON without white space, the limit is %d", len(text), MaxMemoBytes)
	}
	return []byte(text), nil
}

// CheckWorkflow says whether text may be the name of a workflow: 1 to MaxWorkflowBytes of A-Z a-z 0-9 . _ -
// beginning with a letter or digit, since it is part of URLs and file names. The error is an *Error of code
// InvalidArgument.
func CheckWorkflow(name string) error {
	const what = "workflow name"
	if err := checkAlphabet(what, name, MaxWorkflowBytes, "._-"); err != nil {
		return err
	}
	if !alphanumeric(name[0]) {
		return Errorf(InvalidArgument, "%s must begin with a letter or digit, got %s", what, quoted(name))
	}
	return nil
}

// MaxNamespaceBytes bounds names of namespaces, which may become labels of host names.
const MaxNamespaceBytes = 63

// CheckNamespace reports whether text may be the name of a namespace: 1 to MaxNamespaceBytes of a-z 0-9 - that begin
// and end with a letter or digit, as in a DNS label. The error is an *Error of code InvalidArgument.
func CheckNamespace(name string) error {
	const what = "namespace"
	if name == "" || len(name) > MaxNamespaceBytes {
		return Errorf(InvalidArgument, "%s must have 1 to %d bytes, got %d", what, MaxNamespaceBytes, len(name))
	}
	for i := range len(name) {
		if c := name[i]; c != '-' && (!alphanumeric(c) || c >= 'A' && c <= 'Z') {
			return Errorf(InvalidArgument, "%s may hold the letters a-z, digits and -, got %q in %s", what, letter(name[i:]),
				quoted(name))
		}
	}
	if name[0] == '-' || name[len(name)-1] == '-' {
		return Errorf(InvalidArgument, "%s must begin and end with a letter or digit, got %s", what, quoted(name))
	}
	return nil
}

// checkAlphabet says whether text has 1 to limit bytes, each an ASCII letter, a digit or one of marks.
func checkAlphabet(what, text string, limit int, marks string) error {
	if text == "" || len(text) > limit {
		return Errorf(InvalidArgument, "%s must have 1 to %d bytes, got %d", what, limit, len(text))
	}
	for i := range len(text) {
		if !alphanumeric(text[i]) && strings.IndexByte(marks, text[i]) < 0 {
			return Errorf(InvalidArgument, "%s may hold the letters A-Z a-z, digits and %s, got %q in %s",
				what, marks, letter(text[i:]), quoted(text))
		}
	}
	return nil
}

// letter returns the first letter of a text, whole, or its first byte if that is no UTF-8.
func letter(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return text[:n]
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c)
}

// maxQuotedBytes bounds what an error repeats of somebody's text: enough to recognize it.
const maxQuotedBytes = 64

// quoted gives text for an error: in quotes, control characters escaped, the end cut off if it is long.
func quoted(text string) string {
	if len(text) <= maxQuotedBytes {
		return strconv.Quote(text)
	}
	n := maxQuotedBytes
	for n > maxQuotedBytes-utf8.UTFMax && !utf8.RuneStart(text[n]) { // not in the middle of a character
		n--
	}
	return strconv.Quote(text[:n]) + "…"
}
