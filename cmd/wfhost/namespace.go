package main

import (
	"fmt"
	"net/http"

	"github.com/wfhost/wfhost/host"
)

type namespacesCmd struct{}

func (c *namespacesCmd) Run(g *globals) error {
	var list []host.NamespaceInfo
	if _, _, err := g.call(http.MethodGet, "/v1/namespaces", nil, nil, &list); err != nil {
		return err
	}
	switch g.Output {
	case "json":
		return g.json(list)
	case "ids":
		for _, n := range list {
			_, _ = fmt.Fprintln(g.io.out, n.Name)
		}
		return nil
	}
	rows := make([][]string, len(list))
	for i, n := range list {
		rows[i] = []string{n.Name, instant(n.Created)}
	}
	return g.table("namespace\tcreated", rows)
}
