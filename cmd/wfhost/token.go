package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// tokenCmd prints the token that the other commands use, for curl and web pages.
type tokenCmd struct{}

func (c *tokenCmd) Run(g *globals) error {
	t, err := g.tokenOf()
	if err != nil {
		return err
	}
	if t == "" {
		return &exitCode{exitNotFound, fmt.Errorf("there is no token for %s: no server of yours listens there with one; "+
			"for a server elsewhere, set WFHOST_TOKEN", g.Server)}
	}
	if g.Format == "json" {
		return g.json(map[string]string{"token": t})
	}
	_, err = fmt.Fprintln(g.io.out, t)
	return err
}

type tokensCmd struct {
	Create tokensCreateCmd `cmd:"" help:"Create a token and print it; it is shown once."`
	List   tokensListCmd   `cmd:"" help:"List the tokens, without their texts."`
	Revoke tokensRevokeCmd `cmd:"" help:"Revoke a token by its id."`
}

type tokensCreateCmd struct {
	Scope   []string `help:"What it allows: read, work, run, operate, upload, admin; with commas between." required:"" type:"scope"`
	Name    string   `help:"Name for people."`
	Expires string   `help:"How long it lasts, such as 30d; default: until it is revoked." placeholder:"DURATION" type:"lifetime"`
	All     bool     `name:"all-namespaces" help:"For all namespaces, and not only for that of --namespace."`
}

func (c *tokensCreateCmd) Run(g *globals) error {
	if g.Format == "ids" {
		return &exitCode{exitUsage, errors.New("--format ids would lose the text of the token, which is shown once: use json or table")}
	}
	req := httpapi.TokenRequest{Name: c.Name, All: c.All, Expires: c.Expires}
	if c.All {
		g.Namespace = "" // the request names no namespace
	}
	for _, s := range c.Scope {
		req.Scopes = append(req.Scopes, host.Scope(s))
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	var t httpapi.NewToken
	_, b, err := g.call(http.MethodPost, "/v1/tokens", nil, body, &t)
	if err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(json.RawMessage(b))
	}
	_, err = fmt.Fprintln(g.io.out, t.Text)
	_, _ = fmt.Fprintf(g.io.err, "Save the token: it is not shown again. To revoke it: wfhost tokens revoke %s\n", t.ID)
	return err
}

type tokensListCmd struct{}

func (c *tokensListCmd) Run(g *globals) error {
	var list []host.Token
	if _, _, err := g.call(http.MethodGet, "/v1/tokens", nil, nil, httpapi.ItemsOf(&list)); err != nil {
		return err
	}
	switch g.Format {
	case "json":
		return g.json(list)
	case "ids":
		for _, t := range list {
			_, _ = fmt.Fprintln(g.io.out, t.ID)
		}
		return nil
	}
	rows := make([][]string, len(list))
	for i, t := range list {
		namespace, expires := t.Namespace, "never"
		if namespace == "" {
			namespace = "all"
		}
		if !t.Expires.IsZero() {
			expires = instant(t.Expires)
			if t.Expires.Before(g.now()) {
				expires += " (has expired)"
			}
		}
		var scopes []string
		for _, s := range t.Scopes {
			scopes = append(scopes, string(s))
		}
		rows[i] = []string{t.ID, printable(t.Name), namespace, strings.Join(scopes, ","), instant(t.Created), expires}
	}
	return g.table("token\tname\tnamespace\tscopes\tcreated\texpires", rows)
}

type tokensRevokeCmd struct {
	ID string `arg:"" name:"token" help:"Id of the token, as tokens list shows it."`
}

func (c *tokensRevokeCmd) Run(g *globals) error {
	if strings.HasPrefix(c.ID, host.TokenPrefix) {
		return &exitCode{exitUsage, errors.New("this is the text of a token, which is not sent: revoke it by its id, see tokens list")}
	}
	if _, _, err := g.call(http.MethodDelete, "/v1/tokens/"+segment(c.ID), nil, nil, nil); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(map[string]string{"revoked": c.ID})
	}
	_, err := fmt.Fprintf(g.io.out, "%s revoked\n", c.ID)
	return err
}
