package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

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
		return c.follow(g, q)
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
	b, err := json.Marshal(chunk.Data)
	if err != nil {
		b = []byte(err.Error())
	}
	_, _ = fmt.Fprintf(g.io.out, "%5d  %s  %-12s %s\n", chunk.Index, instant(chunk.Time), oneLine(chunk.Topic), printableJSON(b))
}

// follow reads server-sent events until the one that says that the run has ended. With --format json each is one line. Where
// the server is restarted meanwhile, it goes on behind the newest chunk.
func (c *outputCmd) follow(g *globals, q url.Values) error {
	return g.patiently(func() error { return c.events(g, q) })
}

// events follows the output within one connection, and has q go on behind what it has shown.
func (c *outputCmd) events(g *globals, q url.Values) error {
	req, err := http.NewRequestWithContext(g.ctx, http.MethodGet, g.address(runPath(c.RunID, "/output"), q), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := g.do(req)
	if err != nil {
		return g.unreachable(g.ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	if res.StatusCode != http.StatusOK {
		b := make([]byte, 64<<10)
		n, _ := res.Body.Read(b)
		if err = problemOf(res, b[:n]); awayStatus(res.StatusCode) {
			err = &away{err}
		}
		return err
	}
	g.answered, g.connected = true, true
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, maxAnswerBytes)
	event := ""
	for s.Scan() {
		field, value, _ := strings.Cut(s.Text(), ": ")
		switch {
		case field == "event":
			event = value
		case field == "data" && event == "end":
			return nil
		case field == "data" && event == "error":
			p := httpapi.Problem{Detail: value} // as it is, of a server that sends something else
			_ = json.Unmarshal([]byte(value), &p)
			return fmt.Errorf("the server says: %s", printable(p.Detail))
		case field == "data":
			if err := c.take(g, q, value); err != nil {
				return err
			}
		}
	}
	if g.ctx.Err() != nil {
		return g.ctx.Err()
	}
	return &away{cmp.Or(s.Err(), errors.New("the server has ended the connection"))}
}

// take shows a chunk.
func (c *outputCmd) take(g *globals, q url.Values, text string) error {
	var chunk httpapi.Chunk
	if err := json.Unmarshal([]byte(text), &chunk); err != nil {
		return err
	}
	q.Set("from", strconv.FormatUint(chunk.Index+1, 10))
	if g.Format == "json" {
		_, err := fmt.Fprintf(g.io.out, "%s\n", printableJSON([]byte(text)))
		return err
	}
	c.print(g, chunk)
	return nil
}
