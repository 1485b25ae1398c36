package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/wfhost/wfhost/host/httpapi"
)

type auditCmd struct {
	From    string `help:"RFC 3339: only what was answered at this instant or after it." placeholder:"INSTANT" type:"instant"`
	Refused bool   `help:"Requests that were refused, in place of those that may have changed something."`
}

func (c *auditCmd) Run(g *globals) (err error) {
	q := url.Values{}
	if c.From != "" {
		q.Set("from", c.From)
	}
	if c.Refused {
		q.Set("refused", "true")
	}
	stream, err := g.stream(g.ctx, http.MethodGet, "/v1/audit", q, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	lines := bufio.NewScanner(&fromServer{stream, "audit log", g.Server})
	for lines.Scan() {
		var r httpapi.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("the server sent a record that cannot be read: %w", err)
		}
		text := oneLine(auditText(&r))
		switch g.Format {
		case "json":
			text = string(printableJSON(lines.Bytes()))
		case "ids":
			text = oneLine(r.Caller)
		}
		if _, err := fmt.Fprintln(g.io.out, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// auditText returns a record as one line.
func auditText(r *httpapi.Record) string {
	what := r.Endpoint
	if method, _, ok := strings.Cut(r.Endpoint, " "); ok && r.Path != "" {
		what = method + " " + r.Path
	}
	if r.Query != "" {
		what += "?" + r.Query
	}
	parts := []string{instant(r.Time), fmt.Sprint(r.Status), r.Caller}
	if r.Name != "" {
		parts = append(parts, fmt.Sprintf("%q", r.Name))
	}
	parts = append(parts, r.Address, what)
	if r.Namespace != "" {
		parts = append(parts, "in "+r.Namespace)
	}
	if r.Cut {
		parts = append(parts, "cut")
	}
	if r.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("after %d that are not in the log", r.Omitted))
	}
	return strings.Join(parts, "  ")
}
