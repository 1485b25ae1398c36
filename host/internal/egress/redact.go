package egress

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of the escapes before one character of a secret. Each bounds the work for a response that consists of nothing
// but such escapes, and is more than texts nested several times need.
const (
	maxBackslashes = 16 // \\\\\\\" is a quote within four strings
	maxNested      = 4  // repetitions in %2525 and &amp;amp;
	maxZeros       = 8  // zeros in &#000034;
	maxSkipped     = 4  // NUL bytes of UTF-16 and UTF-32, and line breaks
	minDerived     = 6  // a shorter part of an encoded secret is no secret, and occurs by chance
)

// redactor replaces the secrets that a request sent in the response. It finds a secret verbatim, in upper and lower
// case, and with each character escaped as in JSON, Go, C and JavaScript strings, URLs, HTML, XML, CSV and
// quoted-printable, also several times over; in UTF-16 and UTF-32; in hexadecimal; in base64 at any offset; and, if the
// secret is base64 itself, decoded. It does not find other values that a service computes from a secret.
type redactor struct{ needles []needle }

// needle is a text to find. It is matched character by character.
type needle struct {
	chars       []char
	placeholder string
	first       [256]bool // the bytes with which a match can begin
}

// char is a character, and its bytes as they are sent. In a text that is not valid UTF-8, each byte is a char.
type char struct {
	r   rune
	raw string
}

// add adds a secret, to be replaced by its placeholder.
func (r *redactor) add(secret, placeholder string) {
	r.needle(secret, placeholder)
	r.encoded(secret, placeholder)
	if plain, ok := unbase64(secret); ok {
		r.derived(plain, placeholder)
		r.encoded(plain, placeholder)
		if _, password, ok := strings.Cut(plain, ":"); ok { // as in Authorization: Basic
			r.derived(password, placeholder)
			r.encoded(password, placeholder)
		}
	}
}

// encoded adds a secret in hexadecimal; its base64 at each offset within a longer text; and, if it is not ASCII, its
// UTF-16. The UTF-16 of an ASCII secret needs no needle, since skip passes over zero bytes.
func (r *redactor) encoded(secret, placeholder string) {
	r.derived(hex.EncodeToString([]byte(secret)), placeholder)
	for offset := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, offset), secret...))
		text = text[(offset*8+5)/6:] // the characters removed hold bits of the text before the secret
		if (offset+len(secret))%3 != 0 && text != "" {
			text = text[:len(text)-1] // the last character has bits of the text behind the secret
		}
		r.derived(text, placeholder)
	}
	if !utf8.ValidString(secret) || !strings.ContainsFunc(secret, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return
	}
	var little, big []byte
	for _, u := range utf16.Encode([]rune(secret)) {
		little, big = binary.LittleEndian.AppendUint16(little, u), binary.BigEndian.AppendUint16(big, u)
	}
	for _, b := range [][]byte{little, big} { // skip passes over zero bytes
		r.derived(strings.ReplaceAll(string(b), "\x00", ""), placeholder)
	}
}

// derived adds a text that was made of a secret, unless it is shorter than minDerived.
func (r *redactor) derived(text, placeholder string) {
	if len(text) >= minDerived {
		r.needle(text, placeholder)
	}
}

func (r *redactor) needle(text, placeholder string) {
	n := needle{placeholder: placeholder}
	if utf8.ValidString(text) {
		for _, c := range text {
			n.chars = append(n.chars, char{c, string(c)})
		}
	} else {
		for i, b := range []byte(text) {
			n.chars = append(n.chars, char{rune(b), text[i : i+1]})
		}
	}
	for b := range 256 {
		one := string([]byte{byte(b)})
		n.first[b] = strings.Contains(`\%&=`, one) || rawAt(one, 0, n.chars[0]) > 0 || one == "+" && n.chars[0].r == ' '
	}
	for _, c := range cases(n.chars[0]) {
		n.first[c[0]] = true
	}
	r.needles = append(r.needles, n)
}

// unbase64 decodes a text that may be base64, of the standard or the URL alphabet. It returns false if the text is not
// base64, or if the result is not printable ASCII.
func unbase64(text string) (plain string, ok bool) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c > '~' }) {
		return "", false
	}
	return string(b), true
}

// redact replaces secrets. If several begin at the same place, it replaces the longest.
func (r *redactor) redact(text string) string {
	if len(r.needles) == 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); {
		end, placeholder := at, ""
		for i := range r.needles {
			n := &r.needles[i]
			if !n.first[text[at]] {
				continue
			}
			if e := n.match(text, at); e > end {
				end, placeholder = e, n.placeholder
			}
		}
		if end == at {
			at++
			continue
		}
		out.WriteString(text[done:at])
		out.WriteString(placeholder)
		at, done = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// match returns the end of the longest match that begins at an offset, or -1.
func (n *needle) match(text string, at int) int {
	var a, b [2 * maxBackslashes]int
	ends, next := append(a[:0], at), b[:0]
	for i, want := range n.chars {
		next = next[:0]
		for _, e := range ends {
			next = character(text, e, want, next)
			if behind := skip(text, e); i > 0 && behind > e {
				next = character(text, behind, want, next)
			}
		}
		if len(next) == 0 {
			return -1
		}
		if len(next) > 1 {
			slices.Sort(next)
			next = slices.Compact(next)
		}
		ends, next = next, ends
	}
	return ends[len(ends)-1]
}

// skip returns the offset behind the bytes that may stand between two characters: the zero bytes of wider encodings,
// and the line breaks that base64 and quoted-printable insert.
func skip(text string, at int) int {
	if strings.HasPrefix(text[at:], "=\r\n") || strings.HasPrefix(text[at:], "=\n") {
		at++
	}
	for n := 0; n < maxSkipped && at < len(text) && (text[at] == 0 || text[at] == '\n' || text[at] == '\r'); n++ {
		at++
	}
	return at
}

// character appends the ends of all forms of a character that begin at an offset.
func character(text string, at int, want char, ends []int) []int {
	if at >= len(text) {
		return ends
	}
	behind := prefixed(text, at, `\`, maxBackslashes)
	if want.r == '\\' {
		for e := at + 1; e <= behind; e++ {
			ends = append(ends, e)
		}
	}
	if e := rawAt(text, behind, want); e > 0 {
		ends = append(ends, e)
		if (want.r == '"' || want.r == '\'') && rawAt(text, e, want) > 0 { // doubled in CSV and SQL
			ends = append(ends, e+1)
		}
	}
	if behind > at {
		ends = escape(text, behind, want, ends)
	}
	switch text[at] {
	case '+':
		if want.r == ' ' {
			ends = append(ends, at+1)
		}
	case '%', '=':
		ends = bytewise(text, at, want, ends)
		if want.r == ' ' { // as %2B, if + was escaped again
			ends = bytewise(text, at, char{'+', "+"}, ends)
		}
	case '&':
		ends = entity(text, prefixed(text, at+1, "amp;", maxNested), want, ends)
		if want.r == '&' { // &amp; itself, also repeated
			for e := at + 1; e < len(text) && strings.HasPrefix(text[e:], "amp;") && e <= at+4*maxNested; e += 4 {
				ends = append(ends, e+4)
			}
		}
	}
	return ends
}

// prefixed returns the offset behind at most most repetitions of what.
func prefixed(text string, at int, what string, most int) int {
	for n := 0; n < most && strings.HasPrefix(text[at:], what); n++ {
		at += len(what)
	}
	return at
}

// rawAt returns the end of an unescaped character at an offset, in either case, in UTF-8 or Latin-1, or 0.
func rawAt(text string, at int, want char) int {
	if at < len(text) && want.r < 0x100 && fold(text[at]) == fold(byte(want.r)) {
		return at + 1
	}
	if want.r >= utf8.RuneSelf && at <= len(text) {
		for _, c := range cases(want) {
			if strings.HasPrefix(text[at:], c) {
				return at + len(c)
			}
		}
	}
	return 0
}

// cases returns the bytes of a character as sent, in upper case and in lower case. ASCII has only the first: see fold.
func cases(c char) []string {
	if c.r < utf8.RuneSelf || len(c.raw) == 1 {
		return []string{c.raw}
	}
	return []string{c.raw, string(unicode.ToUpper(c.r)), string(unicode.ToLower(c.r))}
}

// fold makes letters lower case, and maps the URL alphabet of base64 to the standard one.
func fold(b byte) byte {
	switch {
	case b >= 'A' && b <= 'Z':
		return b + 'a' - 'A'
	case b == '-':
		return '+'
	case b == '_':
		return '/'
	}
	return b
}

// escape matches the part of an escape behind its backslash.
func escape(text string, at int, want char, ends []int) []int {
	if at >= len(text) {
		return ends
	}
	number := func(from, digits, base int) {
		if v, ok := numberAt(text, from, digits, base); ok && same(v, want.r) {
			ends = append(ends, from+digits)
		}
	}
	switch text[at] {
	case 'u':
		number(at+1, 4, 16)
		if hi, ok := numberAt(text, at+1, 4, 16); ok && want.r >= 0x10000 {
			if lo, ok := numberAt(text, at+7, 4, 16); ok && 0x10000+(hi-0xd800)<<10+(lo-0xdc00) == want.r {
				ends = append(ends, at+11)
			}
		}
		if digits := strings.IndexByte(text[at:min(at+maxZeros+2, len(text))], '}') - 2; digits > 0 && text[at+1] == '{' {
			if v, ok := numberAt(text, at+2, digits, 16); ok && same(v, want.r) {
				ends = append(ends, at+digits+3)
			}
		}
	case 'U':
		number(at+1, 8, 16)
	case 'x':
		number(at+1, 2, 16)
	case 't':
		if want.r == '\t' {
			ends = append(ends, at+1)
		}
	default:
		number(at, 3, 8)
	}
	if want.r >= utf8.RuneSelf { // \xc3\xa9, and \303\251
		e := at - 1
		for _, b := range []byte(want.raw) {
			v, ok := numberAt(text, e+2, 2, 16)
			octal, ok8 := numberAt(text, e+1, 3, 8)
			if !(ok && v == rune(b) || ok8 && octal == rune(b)) || text[e] != '\\' {
				return ends
			}
			e += 4
		}
		ends = append(ends, e)
	}
	return ends
}

// numberAt parses a number with the given count of digits.
func numberAt(text string, at, digits, base int) (rune, bool) {
	if at < 0 || digits < 1 || at+digits > len(text) {
		return 0, false
	}
	v, err := strconv.ParseUint(text[at:at+digits], base, 32)
	return rune(v), err == nil
}

// same reports whether a number is the code of a character, in either case.
func same(v, want rune) bool {
	return v == want || v < utf8.RuneSelf && want < utf8.RuneSelf && v > 0 && fold(byte(v)) == fold(byte(want))
}

// bytewise matches %22, %2522 and =22, for each byte of a character.
func bytewise(text string, at int, want char, ends []int) []int {
	sign := text[at]
	if want.r == '%' { // %25 is a % itself
		for e := at + 3; e <= prefixed(text, at+1, "25", maxNested); e += 2 {
			ends = append(ends, e)
		}
		return ends
	}
	for i, b := range []byte(want.raw) {
		if i > 0 {
			at = skip(text, at)
		}
		if at >= len(text) || text[at] != sign {
			return ends
		}
		at = prefixed(text, at+1, "25", maxNested)
		v, ok := numberAt(text, at, 2, 16)
		if !ok || !same(v, rune(b)) {
			return ends
		}
		at += 2
	}
	return append(ends, at)
}

// names are the named entities that escapers write.
var names = map[rune]string{'"': "quot", '\'': "apos", '<': "lt", '>': "gt", '&': "amp"}

// entity matches what follows the & of &quot; &#34; and &#x22;
func entity(text string, at int, want char, ends []int) []int {
	if name := names[want.r]; name != "" && strings.HasPrefix(text[at:], name) {
		at += len(name)
		return append(ends, prefixed(text, at, ";", 1))
	}
	if !strings.HasPrefix(text[at:], "#") {
		return ends
	}
	at++
	base := 10
	if at < len(text) && (text[at] == 'x' || text[at] == 'X') {
		at, base = at+1, 16
	}
	at = prefixed(text, at, "0", maxZeros)
	for digits := 1; digits <= maxZeros; digits++ {
		if v, ok := numberAt(text, at, digits, base); ok && same(v, want.r) {
			ends = append(ends, prefixed(text, at+digits, ";", 1))
		}
	}
	return ends
}
