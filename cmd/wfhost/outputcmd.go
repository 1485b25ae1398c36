package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/wfhost/wfhost/host/httpapi"
)

type outputCmd struct {
	RunID  string `arg:"" name:"run" help:"Id of the run."`
	Follow bool   `short:"f" help:"Go on until the run ends."`
	Topic  string `help:"Only this topic."`
	From   int64  `help:"The first index; a negative one counts from the end, within the topic if there is one."`
}

func (c *outputCmd) Run(g *globals) error {
	q := url.Values{"from": {strconv.FormatInt(c.From, 10)}}
	if c.Topic != "" {
		q.Set("topic", c.Topic)
	}
	if c.Follow {
		return c.follow(g)
	}
	all := []httpapi.Chunk{}
	for {
		var chunks []httpapi.Chunk
		if _, _, err := g.call(http.MethodGet, runPath(c.RunID, "/output"), q, nil, httpapi.ItemsOf(&chunks)); err != nil {
			return err
		}
		for _, chunk := range chunks {
			c.print(g, chunk)
		}
		all = append(all, chunks...)
		if len(chunks) == 0 {
			break
		}
		q.Set("from", strconv.FormatUint(chunks[len(chunks)-1].Index+1, 10))
	}
	if g.Format == "json" {
		return g.json(all)
	}
	return nil
}

func (c *outputCmd) print(g *globals, chunk httpapi.Chunk) {
	if g.Format == "json" {
		return
	}
	b, err := json.Marshal(readable(chunk.Base64, "data", chunk.Data))
	if err != nil {
		b = []byte(err.Error())
	}
	_, _ = fmt.Fprintf(g.io.out, "%5d  %s  %-12s %s\n", chunk.Index, instant(chunk.Time), oneLine(chunk.Topic), printableJSON(b))
}

// follow shows chunks as they arrive, until the run has ended. With --format json each chunk is one line.
func (c *outputCmd) follow(g *globals) error {
	api, err := g.apiFor(c.RunID)
	if err != nil {
		return err
	}
	for chunk, err := range api.FollowOutput(g.ctx, c.RunID, c.Topic, c.From) {
		if err != nil {
			return g.unreachable(g.ctx, err)
		}
		if g.Format == "json" {
			b, err := encoded(chunk)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(g.io.out, "%s\n", printableJSON(bytes.TrimSpace(b)))
			continue
		}
		c.print(g, httpapi.Chunk{Index: chunk.Index, Time: chunk.Time, Topic: chunk.Topic, Data: chunk.Data, Base64: chunk.Base64})
	}
	return nil
}
