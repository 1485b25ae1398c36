package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

//go:embed templates/*.html static/*
var files embed.FS

// views returns the templates of all pages, each within the frame. Commands that serve no page do not wait for them.
var views = sync.OnceValue(func() map[string]*template.Template {
	frame := template.New("frame").Funcs(template.FuncMap{"join": strings.Join})
	template.Must(frame.ParseFS(files, "templates/frame.html"))
	all := map[string]*template.Template{}
	names, _ := fs.Glob(files, "templates/*.html") // the pattern is valid
	for _, file := range names {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		all[name] = template.Must(template.Must(frame.Clone()).ParseFS(files, file))
	}
	return all
})

// asset is a static file.
type asset struct {
	body []byte
	kind string
	tag  string
}

var assets = func() map[string]asset {
	all := map[string]asset{}
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
		"timeline.js": "text/javascript; charset=utf-8",
		"icon.svg":    "image/svg+xml"} {
		b, err := files.ReadFile("static/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		all[name] = asset{b, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return all
}()

// static answers with a static file.
func (v *visit) static() error {
	a, ok := assets[v.r.PathValue("file")]
	if !ok {
		return say(http.StatusNotFound, "There is no such file.")
	}
	h := v.w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	h.Set("Cache-Control", "no-cache") // browsers revalidate it each time
	if v.r.Header.Get("If-None-Match") == a.tag {
		v.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	_, err := v.w.Write(a.body)
	return ignore(err)
}

// ignore drops the error of an answer, since the client is gone.
func ignore(error) error { return nil }

// screen is the data of a template: the visit with its helpers, and the data of the page.
type screen struct {
	*visit
	View  string
	Title string
	D     any
}

// write answers with a page. The template is executed before anything is sent, so that a failed template sends no half
// page.
func (v *visit) write(status int, view, title string, data any) error {
	var b bytes.Buffer
	if err := views()[view].ExecuteTemplate(&b, "frame.html", &screen{v, view, title, data}); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString("the page could not be made\n")
	}
	v.status = status
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, err := v.w.Write(b.Bytes())
	return ignore(err)
}

// Link returns the address of a path in the namespace of the visit. parameters are pairs of name and value; pairs with
// an empty value are omitted.
func (v *visit) Link(path string, parameters ...any) string {
	q := url.Values{}
	if v.namespace != "" && v.namespace != "default" {
		q.Set("namespace", v.namespace)
	}
	for i := 0; i+1 < len(parameters); i += 2 {
		if text := plainText(parameters[i+1]); text != "" {
			q.Add(plainText(parameters[i]), text)
		}
	}
	to := v.p.o.prefix + path
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return to
}

// plainText formats a text, a number or a boolean. It panics for other types, which fails the template: a page must
// not show Go structures or pointers.
func plainText(v any) string {
	switch x := reflect.ValueOf(v); {
	case x.Kind() == reflect.String, x.Kind() == reflect.Bool, x.CanInt(), x.CanUint():
		return fmt.Sprint(v)
	}
	panic(fmt.Sprintf("a %T has no plain text", v))
}

// segment escapes a name as a segment of a path, including segments of dots, which would change the path.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// Run returns the address of a run, or of a page below it.
func (v *visit) Run(id string, rest ...any) string {
	path := "/runs/" + segment(id)
	if len(rest)%2 == 1 {
		path += plainText(rest[0])
		rest = rest[1:]
	}
	return v.Link(path, rest...)
}

// Workflow returns the address of a workflow, or of a page below it.
func (v *visit) Workflow(name string, rest ...string) string {
	return v.Link("/workflows/" + segment(name) + strings.Join(rest, ""))
}

// Schedule returns the address of a schedule, or of a page below it.
func (v *visit) Schedule(id string, rest ...string) string {
	return v.Link("/schedules/" + segment(id) + strings.Join(rest, ""))
}

// Home returns the address of the overview of a namespace.
func (v *visit) Home(namespace string) string {
	return v.p.o.prefix + "/?" + url.Values{"namespace": {namespace}}.Encode()
}

// Segment escapes a name as a segment of a path.
func (v *visit) Segment(name string) string { return segment(name) }

// With returns the screen with other data.
func (s *screen) With(data any) *screen { return &screen{s.visit, s.View, s.Title, data} }

// Sum adds two numbers.
func (v *visit) Sum(a, b int) int { return a + b }

// Next returns i+1.
func (v *visit) Next(i int) int { return i + 1 }

// Sinces returns the choices of the filter by age.
func (v *visit) Sinces() []string { return []string{"1h", "24h", "7d", "30d"} }

// Ms converts Unix milliseconds to an instant.
func (v *visit) Ms(ms int64) time.Time { return abi.TimeOf(ms) }

// Since shows the time since an instant.
func (v *visit) Since(ms int64) template.HTML {
	text := humane(max(v.now.Sub(abi.TimeOf(ms)), 0))
	return template.HTML(fmt.Sprintf(`<time data-since="%d">%s</time>`, ms, text)) //nolint:gosec // digits and our words
}

// Static returns the address of a file of the page.
func (v *visit) Static(name string) string { return v.p.o.prefix + "/static/" + name }

// Can reports whether the visitor has a scope.
func (v *visit) Can(scope string) bool {
	return v.caller.Name != "" && v.caller.Allows(host.Scope(scope), v.namespace)
}

// Who returns the logged-in user, empty without a session.
func (v *visit) Who() string {
	if v.session == "" {
		return ""
	}
	if v.caller.Token.Name != "" {
		return v.caller.Token.Name
	}
	return v.caller.Name
}

// Space returns the namespace, empty for the default one.
func (v *visit) Space() string {
	if v.namespace == "default" {
		return ""
	}
	return v.namespace
}

// Spaces returns the names of the namespaces that the visitor may see, if there are several.
func (v *visit) Spaces() (names []string) {
	if v.ns == nil || v.caller.Namespace != "" {
		return nil
	}
	list, err := v.p.h.Namespaces(v.r.Context())
	if err != nil || len(list) < 2 {
		return nil
	}
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names
}

// Now returns the server's time in Unix milliseconds.
func (v *visit) Now() int64 { return v.now.UnixMilli() }

// Ago shows the age of an instant. A script keeps it current.
func (v *visit) Ago(t time.Time) template.HTML { return v.moment(t, "ago") }

// Until shows the time left until an instant. A script keeps it current.
func (v *visit) Until(t time.Time) template.HTML { return v.moment(t, "until") }

func (v *visit) moment(t time.Time, mode string) template.HTML {
	if t.IsZero() {
		return "–"
	}
	text := "now"
	switch d := t.Sub(v.now); {
	case d > 0:
		text = "in " + humane(d)
	case mode == "until":
		text = humane(-d) + " overdue"
	case d <= -time.Second:
		text = humane(-d) + " ago"
	}
	iso := t.UTC().Format("2006-01-02T15:04:05.000Z")
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-%s="%d">%s</time>`, //nolint:gosec // digits and our words
		iso, t.UTC().Format("2006-01-02 15:04:05.000 UTC"), mode, t.UnixMilli(), text))
}

// At shows an instant.
func (v *visit) At(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-at="%d">%s</time>`, //nolint:gosec // digits
		t.UTC().Format("2006-01-02T15:04:05.000Z"), t.UnixMilli(), t.UTC().Format("2006-01-02 15:04:05 UTC")))
}

// humane formats a duration with its two greatest units: 3d 4h, 12.3s, 850ms.
func humane(d time.Duration) string {
	day := 24 * time.Hour
	two := func(n time.Duration, unit string, rest time.Duration, small string) string {
		if rest == 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		return fmt.Sprintf("%d%s %d%s", n, unit, rest, small)
	}
	switch {
	case d >= 365*day:
		return two(d/(365*day), "y", d%(365*day)/day, "d")
	case d >= day:
		return two(d/day, "d", d%day/time.Hour, "h")
	case d >= time.Hour:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	case d >= time.Minute:
		return two(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d >= 10*time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	case d >= time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + "s"
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// Count formats a number with thousands separators.
func (v *visit) Count(n any) string {
	s := plainText(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural formats a number with its noun.
func (v *visit) Plural(n any, one, many string) string { return plural(n, one, many) }

func plural(n any, one, many string) string {
	if plainText(n) == "1" {
		return "1 " + one
	}
	return (*visit)(nil).Count(n) + " " + many
}

// Line shortens a text to one line of n characters at most.
func (v *visit) Line(text string, n int) string { return line(text, n) }

func line(text string, n int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:n-1])) + "…"
}

// maxShown bounds the displayed part of a payload; the whole of it can be downloaded.
const maxShown = 64 << 10

// payload is a payload as a page shows it.
type payload struct {
	Label string // what it belongs to
	Part  string // its name in addresses
	Text  string // JSON with indents, text, or base64
	Kind  string // JSON, text or bytes
	Size  int    // in bytes, as it is stored
	Cut   bool   // Text is the beginning
	Seq   uint64 // the entry that holds it
}

// show returns a payload for people, nil if it is empty.
func show(label, part string, b []byte) *payload {
	if len(b) == 0 {
		return nil
	}
	p := &payload{Label: label, Part: part, Size: len(b), Kind: "JSON"}
	var out bytes.Buffer
	switch {
	case len(b) <= 4*maxShown && json.Indent(&out, b, "", "  ") == nil: // the JSON of a larger payload would be cut anyway
		p.Text = out.String()
	case utf8.Valid(b) && !bytes.ContainsRune(b, 0):
		p.Kind, p.Text = "text", string(b)
	default:
		p.Kind, p.Text = "bytes", base64.StdEncoding.EncodeToString(b[:min(len(b), maxShown)])
		p.Cut = len(b) > maxShown
	}
	if len(p.Text) > maxShown {
		p.Text, p.Cut = strings.ToValidUTF8(p.Text[:maxShown], ""), true
	}
	return p
}

// SizeText formats the size.
func (p *payload) SizeText() string { return size(int64(p.Size)) }

func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return plural(n, "byte", "bytes")
}

// timeOf converts Unix milliseconds to an instant, 0 to the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return abi.TimeOf(ms)
}
