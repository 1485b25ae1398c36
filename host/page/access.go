package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

const (
	// pageRecords is the number of records of the audit log on the page: the newest that match.
	pageRecords = 200
	// maxRecord is more than a record takes; longer lines are skipped.
	maxRecord = 64 << 10
)

// WithAuditLog shows the audit log to visitors whose token has the scope admin for all namespaces. open is called for
// each visit and returns lines of JSON like httpapi.Record, oldest first; refused selects the log of refused requests.
// Default: the page shows no audit log.
func WithAuditLog(open func(refused bool) (io.ReadCloser, error)) Option {
	return func(o *options) { o.auditLog = open }
}

// accessData is the list of tokens.
type accessData struct {
	Tokens []host.Token
	Audit  bool // there is an audit log
	Done   string
}

// Names returns the names of a token's scopes.
func (d *accessData) Names(t host.Token) (names []string) {
	for _, s := range t.Scopes {
		names = append(names, string(s))
	}
	return names
}

// seesAll reports whether the visitor's token is for all namespaces.
func (v *visit) seesAll() bool { return v.caller.Namespace == "" }

// tokens returns the tokens that the visitor may see: all, or those of its namespace if its own token is for one.
func (v *visit) tokens() ([]host.Token, error) {
	list, err := v.p.h.Tokens().List(v.r.Context())
	if !v.seesAll() {
		list = slices.DeleteFunc(list, func(t host.Token) bool { return t.Namespace != v.caller.Namespace })
	}
	slices.SortFunc(list, func(a, b host.Token) int { return b.Created.Compare(a.Created) })
	return list, err
}

// access shows the tokens.
func (v *visit) access() error {
	list, err := v.tokens()
	if err != nil {
		return err
	}
	return v.write(http.StatusOK, "access", "Access", &accessData{Tokens: list, Audit: v.p.o.auditLog != nil && v.seesAll(),
		Done: actions[v.r.URL.Query().Get("done")].Past})
}

// tokenData is the form of a new token, or the created token.
type tokenData struct {
	Name, Space, TTL string
	Scopes           []choice
	All              bool // it may be for all namespaces
	Problem          string
	Made             *host.Token
	Text             string
}

// tokenForm shows the form of a new token.
func (v *visit) tokenForm() error {
	return v.showToken(http.StatusOK, &tokenData{Space: v.namespace, TTL: "90d"})
}

func (v *visit) showToken(status int, d *tokenData) error {
	d.All = v.seesAll()
	for _, s := range host.Scopes {
		d.Scopes = append(d.Scopes, choice{string(s), slices.Contains(v.form["scope"], string(s))})
	}
	return v.write(status, "token", "New token", d)
}

// createToken creates a token and shows its text, which is not shown again.
func (v *visit) createToken() error {
	d := &tokenData{Name: strings.TrimSpace(v.form.Get("name")), Space: strings.TrimSpace(v.form.Get("space")),
		TTL: strings.TrimSpace(v.form.Get("ttl"))}
	spec := host.TokenSpec{Name: d.Name, Namespace: d.Space}
	for _, s := range v.form["scope"] {
		spec.Scopes = append(spec.Scopes, host.Scope(s))
	}
	err := error(nil)
	if d.TTL != "" {
		ms, bad := abi.ParseDuration(d.TTL)
		spec.TTL = abi.Duration(ms)
		if bad != nil || spec.TTL < time.Second {
			err = say(http.StatusBadRequest, "A token lasts for a duration from 1s on, such as 90d, got %.40q", d.TTL)
		}
	}
	if !v.seesAll() && d.Space != v.caller.Namespace {
		err = say(http.StatusForbidden, "Your token is for the namespace %q, and makes tokens for that alone, not for %.80q",
			v.caller.Namespace, d.Space)
	}
	var made host.Token
	if err == nil {
		d.Text, made, err = v.p.h.Tokens().Create(v.r.Context(), spec)
	}
	if err == nil {
		d.Made, v.changed = &made, true
		return v.showToken(http.StatusOK, d)
	}
	status := statusOf(err)
	if status >= http.StatusInternalServerError {
		return err
	}
	d.Problem = upper(err.Error()) + "."
	return v.showToken(status, d)
}

// findToken returns the token that the path names.
func (v *visit) findToken() (host.Token, error) {
	list, err := v.tokens()
	if err != nil {
		return host.Token{}, err
	}
	id := v.r.PathValue("token")
	for _, t := range list {
		if t.ID == id {
			return t, nil
		}
	}
	return host.Token{}, say(http.StatusNotFound, "There is no token %.80q.", id)
}

// confirmToken shows what an action on a token will do.
func (v *visit) confirmToken() error {
	name := v.r.PathValue("action")
	if name != "revoke" {
		return say(http.StatusNotFound, "There is no action %.80q on a token.", name)
	}
	t, err := v.findToken()
	if err != nil {
		return err
	}
	d := &confirmData{action: actions[name], Name: name, What: t.ID, Of: strings.TrimSpace(t.Name + " " + t.Namespace),
		Back: v.Link("/access"), To: v.Link("/access/tokens/" + segment(t.ID) + "/do/revoke")}
	return v.write(http.StatusOK, "confirm", "Revoke "+t.ID, d)
}

// actToken revokes a token.
func (v *visit) actToken() error {
	if name := v.r.PathValue("action"); name != "revoke" {
		return say(http.StatusNotFound, "There is no action %.80q on a token.", name)
	}
	t, err := v.findToken()
	if err == nil {
		err = v.p.h.Tokens().Revoke(v.r.Context(), t.ID)
	}
	if err != nil {
		return err
	}
	v.changed = true
	v.redirect(v.Link("/access", "done", "revoke"))
	return nil
}

// record has the fields of an audit record that the page shows.
type record struct {
	Time      time.Time `json:"time"`
	Caller    string    `json:"caller"`
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	Scope     string    `json:"scope"`
	Endpoint  string    `json:"endpoint"`
	Path      string    `json:"path"`
	Query     string    `json:"query"`
	Namespace string    `json:"namespace"`
	Status    int       `json:"status"`
	Omitted   int       `json:"omitted"`
}

// auditData has the newest records of the audit log.
type auditData struct {
	Records []record
	Refused bool
	Search  string
	More    bool // older records match, too
}

// audit shows the newest records of the audit log that contain a text.
func (v *visit) audit() error {
	if v.p.o.auditLog == nil {
		return say(http.StatusNotFound, "This server keeps no audit log.")
	}
	if !v.seesAll() {
		return say(http.StatusForbidden, "The audit log is of all namespaces: it needs a token for all of them.")
	}
	q := v.r.URL.Query()
	d := &auditData{Refused: q.Get("refused") != "", Search: strings.TrimSpace(q.Get("text"))}
	log, err := v.p.o.auditLog(d.Refused)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only read
	if err := d.read(log); err != nil {
		return err
	}
	return v.write(http.StatusOK, "audit", "Audit log", d)
}

// read keeps the newest lines that match, and decodes only them. Invalid lines are skipped.
func (d *auditData) read(log io.Reader) error {
	lines, kept, n := bufio.NewReaderSize(log, maxRecord), make([][]byte, pageRecords), 0
	needle := bytes.ToLower([]byte(d.Search))
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = true
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the audit log: %w", err)
		}
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !long && bytes.Contains(bytes.ToLower(line), needle) {
			kept[n%pageRecords] = append(kept[n%pageRecords][:0], line...)
			n++
		}
		long = false
		if err != nil {
			break
		}
	}
	d.More = n > pageRecords
	for i := n - 1; i >= max(0, n-pageRecords); i-- {
		var r record
		if json.Unmarshal(kept[i%pageRecords], &r) == nil && !r.Time.IsZero() {
			d.Records = append(d.Records, r)
		}
	}
	return nil
}
