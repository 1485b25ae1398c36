package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/wfhost/wfhost/abi"
)

// awkward is a secret that every escaping changes.
const awkward = `p"a\ss&<w>o'r/d+%~é, k-e_y`

const mark = "{{secret:KEY}}"

// forms are the escapings that SECURITY.md claims to cover.
var forms = map[string]func(s string) string{
	"as it is":    func(s string) string { return s },
	"small":       strings.ToLower,
	"capital":     strings.ToUpper,
	"JSON":        quotedJSON,
	"JSON twice":  func(s string) string { return quotedJSON(quotedJSON(s)) },
	"JSON thrice": func(s string) string { return quotedJSON(quotedJSON(quotedJSON(s))) },
	"plain JSON": func(s string) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return b.String()
	},
	"Go":         func(s string) string { return fmt.Sprintf("%q", s) },
	"Go, ASCII":  func(s string) string { return fmt.Sprintf("%+q", s) },
	"query":      url.QueryEscape,
	"path":       url.PathEscape,
	"URL twice":  func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"HTML":       html.EscapeString,
	"HTML twice": func(s string) string { return html.EscapeString(html.EscapeString(s)) },
	"XML":        func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "&#39;", "&apos;") },
	"\\u": func(s string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			_, _ = fmt.Fprintf(&b, "\\u%04x", u)
		}
		return b.String()
	},
	"\\x":   func(s string) string { return bytewiseEach(s, "\\x%02x") },
	"octal": func(s string) string { return bytewiseEach(s, "\\%03o") },
	"&#":    func(s string) string { return each(s, "&#%d;") },
	"&#x":   func(s string) string { return each(s, "&#x%X;") },
	"\\u{}": func(s string) string { return each(s, "\\u{%x}") },
	"%":     func(s string) string { return bytewiseEach(s, "%%%02X") },
	"CSV": func(s string) string {
		var b strings.Builder
		w := csv.NewWriter(&b)
		_ = w.Write([]string{s})
		w.Flush()
		return b.String()
	},
	"SQL": func(s string) string { return strings.ReplaceAll(s, "'", "''") },
	"quoted-printable": func(s string) string {
		var b strings.Builder
		w := quotedprintable.NewWriter(&b)
		_, _ = w.Write([]byte("a line so long that it is cut within what follows here, at column 76 : " + s))
		_ = w.Close()
		return b.String()
	},
	"UTF-16":      func(s string) string { return wide(s, 0, 1) },
	"UTF-16, big": func(s string) string { return wide(s, 1, 0) },
	"hex":         func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":         func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 after one byte": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte("x" + s + "y"))
	},
	"base64 after two bytes": func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte("xx" + s + "yy"))
	},
	"base64url":        func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("user:" + s)) },
	"base64 in a URL":  func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
	"base64, in lines": func(s string) string { return inLines(base64.StdEncoding.EncodeToString([]byte(s))) },
}

func quotedJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func each(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		_, _ = fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func bytewiseEach(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		_, _ = fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

func wide(s string, low, high int) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		pair := [2]byte{}
		pair[low], pair[high] = byte(u), byte(u>>8)
		b = append(b, pair[:]...)
	}
	return string(b)
}

func inLines(s string) string {
	var lines []string
	for len(s) > 10 {
		lines, s = append(lines, s[:10]), s[10:]
	}
	return strings.Join(append(lines, s), "\r\n")
}

// TestRedact finds a secret in each form within other text, which stays unchanged.
func TestRedact(t *testing.T) {
	for _, secret := range []string{awkward, "sk_live_4eC39HqLyjWDarjtT1zdp7dc", `"`, `\\\"`, "%25%", "a b", "日本😀!", "\xff\xfe\x80"} {
		var r redactor
		r.add(secret, mark)
		for name, form := range forms {
			derived := strings.HasPrefix(name, "base64") || strings.EqualFold(name, "hex")
			if derived && len(secret) < 9 || secret == "\xff\xfe\x80" && strings.ContainsAny(name, "JGuU&qQmc") {
				continue
			}
			text := "before " + form(secret) + " after"
			got := r.redact(text)
			if !strings.Contains(got, mark) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%q as %s: %q is %q", secret, name, text, got)
			}
		}
	}
}

// TestRedactLeaves does not change texts without the secret.
func TestRedactLeaves(t *testing.T) {
	var r redactor
	if got := r.redact("text"); got != "text" {
		t.Error(got)
	}
	r.add("secret-one", "{{secret:A}}")
	r.add("secret-one-and-two", "{{secret:B}}")
	r.add("secret", "{{secret:C}}")
	for text, want := range map[string]string{
		"":                                    "",
		"\\\\\\ %25 %zz &amp; &#; =0 + \\u12": "\\\\\\ %25 %zz &amp; &#; =0 + \\u12",
		"%":                                   "%", "&": "&", "\\": "\\", "&#x": "&#x", "\\u{": "\\u{", "s": "s", "secre": "secre", "\\u": "\\u", "%s": "%s", "\\x7": "\\x7",
		"secret-one secret-one-and-two secret": "{{secret:A}} {{secret:B}} {{secret:C}}",
		"secretsecret-one":                     "{{secret:C}}{{secret:A}}",
	} {
		if got := r.redact(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestRedactBasic has a secret that is the base64 of a user and a password: answers may contain either of these.
func TestRedactBasic(t *testing.T) {
	var r redactor
	r.add(base64.StdEncoding.EncodeToString([]byte("ada:correct horse")), mark)
	for _, text := range []string{"ada:correct horse", "correct horse", "correct%20horse", hex.EncodeToString([]byte("ada:correct horse"))[8:]} {
		if got := r.redact(text); !strings.Contains(got, mark) {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// TestRedactIsBounded redacts long answers full of beginnings of escapes. Without the limits, it would take hours.
func TestRedactIsBounded(t *testing.T) {
	var r redactor
	r.add(`\%&"=`+strings.Repeat("a", 50), mark)
	for _, unit := range []string{`\`, "%25", "&amp;", "&#0", "=", "a", "\x00", `\u005c`, "\r\n"} {
		text := strings.Repeat(unit, (1<<18)/len(unit))
		if got := r.redact(text); strings.Contains(got, mark) {
			t.Errorf("%q: %.100q", unit, got)
		}
	}
}

// answering returns what a guest gets from a service that answers with f, for a request with a secret and headers.
func answering(t *testing.T, secret string, f http.HandlerFunc, headers map[string][]string) (Response, string, error) {
	t.Helper()
	s := httptest.NewServer(f)
	defer s.Close()
	p := NewPolicy([]string{s.URL}, []string{"KEY=" + s.URL + ",Authorization"}, func(string) (string, bool) { return secret, true })
	all := map[string][]string{"authorization": {"Bearer " + mark}}
	for k, v := range headers {
		all[k] = v
	}
	res, body, err := Do(context.Background(), p, Request{URL: s.URL, Headers: all}, nil)
	return res, string(body), err
}

func echo(w http.ResponseWriter, r *http.Request) {
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = fmt.Fprint(z, got)
		_ = z.Close()
		return
	}
	http.ServeContent(w, r, "", abi.TimeOf(0), strings.NewReader(got))
}

// TestSecretAndGuestsHeaders has a guest request an answer in an encoding in which the host could not find a secret.
func TestSecretAndGuestsHeaders(t *testing.T) {
	for _, encodings := range [][]string{nil, {"gzip"}, {"br", "gzip"}, {"identity"}} {
		for _, name := range []string{"Accept-Encoding", "accept-encoding", "ACCEPT-ENCODING", "Connection", "TE", "Accept-Charset", "Expect"} {
			_, body, err := answering(t, "s3cr3t-of-somebody", echo, map[string][]string{name: encodings})
			if err != nil || body != mark {
				t.Errorf("%s %v: %q %v", name, encodings, body, err)
			}
		}
	}
	for _, name := range []string{"Range", "rAnGe", "If-Range", "Upgrade", "A-IM", "HTTP2-Settings"} {
		_, body, err := answering(t, "s3cr3t-of-somebody", echo, map[string][]string{name: {"bytes=0-3"}})
		if code(err) != abi.Denied || !strings.Contains(err.Error(), "must not be set in a request that sends a secret") {
			t.Errorf("%s: %q %v", name, body, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", abi.TimeOf(0), strings.NewReader("0123456789"))
	}))
	defer s.Close()
	res, body, err := Do(context.Background(), NewPolicy([]string{s.URL}, nil, nil),
		Request{URL: s.URL, Headers: map[string][]string{"Range": {"bytes=2-4"}}}, nil)
	if err != nil || res.Status != http.StatusPartialContent || string(body) != "234" {
		t.Error("without a secret:", res, string(body), err)
	}
}

// TestSecretInAnswers has services put a secret into every part of an answer.
func TestSecretInAnswers(t *testing.T) {
	const secret = `s3cr3t"of\somebody`
	plain := func(status int, header, value, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()[header] = []string{value}
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		f    http.HandlerFunc
		want abi.Code
	}{
		"a header":           {plain(200, "X", secret, ""), 0},
		"a name of a header": {plain(200, "X-s3cr3t-x", "v", ""), 0},
		"JSON":               {plain(400, "X", "v", quotedJSON(secret)), 0},
		"a redirect":         {plain(302, "Location", "/"+secret, ""), 0},
		"a bad redirect":     {plain(302, "Location", "http://%zz/"+secret, ""), 0},
		"an encoding":        {plain(200, "Content-Encoding", "br", secret), abi.Denied},
		"two encodings":      {plain(200, "Content-Encoding", "gzip, gzip", secret), abi.Denied},
		"its own encoding":   {plain(200, "Content-Encoding", secret, secret), abi.Denied},
		"a part":             {plain(206, "Content-Range", "bytes 0-3/18", secret[:4]), abi.Denied},
		"no HTTP":            {raw1("nonsense " + secret + "\r\n\r\n"), abi.StepFailed},
		"a bad status":       {raw1("HTTP/1.1 2" + secret + " OK\r\n\r\n"), abi.StepFailed},
		"half of it":         {raw1("HTTP/1.1 200 OK\r\n" + secret[:12] + "\r\n\r\n"), abi.StepFailed},
		"a transfer":         {raw1("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n"), abi.StepFailed},
		"a short answer":     {raw1("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + secret), abi.StepFailed},
	} {
		use := secret
		if name == "a name of a header" {
			use = "s3cr3t-x"
		}
		res, body, err := answering(t, use, c.f, nil)
		all := fmt.Sprintf("%+v %s %s", res, body, fmt.Sprint(err))
		if (c.want == 0) != (err == nil) || err != nil && code(err) != c.want {
			t.Errorf("%s: %s", name, all)
		}
		if strings.Contains(strings.ToLower(all), "s3cr3t") {
			t.Errorf("%s: the guest sees %s", name, all)
		}
	}
	if _, _, err := answering(t, "two\nlines", echo, nil); code(err) != abi.Denied || !strings.Contains(err.Error(), "control character") {
		t.Error(err)
	}
}

// TestSecretAtTheCut has a service answer with many secrets, and more than the host reads, so that one of them is
// cut. With placeholders in place of the others, the answer would fit.
func TestSecretAtTheCut(t *testing.T) {
	secret := strings.Repeat("s3cr3t", 40)
	const copies = 400
	for _, of := range []int{1, len(secret) / 2, len(secret) - 1} { // number of bytes of the last one that are read
		padding := MaxResponseBytes + 1 - copies*len(secret) - of
		text := strings.Repeat(secret, copies) + strings.Repeat("x", padding) + secret + "and more"
		if n := copies*len(mark) + padding + of; n > MaxResponseBytes-maxHeaderBytes {
			t.Fatalf("the answer would be refused all the same: %d bytes", n)
		}
		_, body, err := answering(t, secret, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }, nil)
		if code(err) != abi.TooLarge || body != "" {
			t.Errorf("%d bytes of the secret: the guest gets %d bytes with %.20q at the end, %v", of, len(body),
				body[max(len(body)-of, 0):], err)
		}
	}
	// An answer that is read completely is accepted if it fits with its placeholders.
	text := strings.Repeat(secret, copies) + strings.Repeat("x", MaxResponseBytes-copies*len(secret))
	_, body, err := answering(t, secret, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }, nil)
	if err != nil || strings.Contains(body, "s3cr3t") || !strings.HasPrefix(body, mark+mark) {
		t.Errorf("%d bytes of an answer of %d, %v", len(body), len(text), err)
	}
}

// raw1 answers with raw bytes, which need not be HTTP.
func raw1(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = c.Write([]byte(text))
		_ = c.Close()
	}
}

// TestSecretAndRefusedConnection shows the cause of a failure if nothing was sent.
func TestSecretAndRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := "http://" + l.Addr().String()
	_ = l.Close()
	p := NewPolicy([]string{to}, []string{"KEY=" + to + ",Authorization"}, func(string) (string, bool) { return "s3cr3t-of-somebody", true })
	_, _, err = Do(context.Background(), p, Request{URL: to, Headers: map[string][]string{"Authorization": {mark}}}, nil)
	if code(err) != abi.StepFailed || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
