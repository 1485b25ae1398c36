package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
)

type updateCmd struct {
	RunID  string `arg:"" name:"run" help:"Id of the run."`
	Name   string `arg:"" help:"Name of the update."`
	Input  string `arg:"" optional:"" help:"Input as JSON, @file, or - for standard input."`
	ID     string `name:"id" help:"Id of the update: the same id and input are the same update. Default: random." type:"update-id"`
	NoWait bool   `help:"Print the id when the update is accepted, and do not wait for the answer."`
	Get    string `help:"Send nothing, and wait for the answer to the update of this id." placeholder:"ID" type:"update-id"`
}

// Run sends the update and prints its answer. The client generates the id, so that it can be printed if the connection is lost.
func (c *updateCmd) Run(g *globals) error {
	id, path := c.Get, runPath(c.RunID, "/updates/"+segment(c.Name))
	if id == "" {
		input, err := g.readPayload("the input", c.Input)
		if err != nil {
			return err
		}
		id = c.ID
		if id == "" {
			id = rand.Text()
		}
		wait := "30s"
		if c.NoWait {
			wait = "0s"
		}
		status, b, err := g.callHeader(g.ctx, http.MethodPost, path, url.Values{"wait": {wait}}, http.Header{"Idempotency-Key": {id}},
			input, nil)
		dial, ok := errors.AsType[*net.OpError](err)
		switch {
		case ok && dial.Op == "dial": // nothing was sent
			return err
		case err != nil:
			return c.lost(err, id)
		case !c.NoWait && status != http.StatusAccepted:
			return printResult(g.io.out, b)
		case c.NoWait && g.Format == "json":
			u := host.Update{Run: c.RunID, Name: c.Name, ID: id, Status: host.UpdateAccepted}
			if status != http.StatusAccepted { // it was answered by now
				u.Status = host.UpdateCompleted
			}
			return g.json(u)
		case c.NoWait:
			_, err := fmt.Fprintln(g.io.out, id)
			return err
		}
	} else if c.Input != "" || c.ID != "" || c.NoWait {
		return &exitCode{exitUsage, errors.New("--get sends nothing: it takes no input, no --id and no --no-wait")}
	}
	for {
		status, b, err := g.call(http.MethodGet, path+"/"+segment(id), url.Values{"wait": {"30s"}}, nil, nil)
		if err != nil {
			return c.lost(err, id)
		}
		if status != http.StatusAccepted {
			return printResult(g.io.out, b)
		}
	}
}

// lost adds advice on how to ask again if it is unknown whether the update was accepted: there was no answer, or the server
// failed or is stopping. With any other answer it was not accepted.
func (c *updateCmd) lost(err error, id string) error {
	_, local := errors.AsType[*exitCode](err)
	if e, ok := errors.AsType[*client.Error](err); local || ok && e.Status < http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("%w\nthe update may have been accepted: `wfhost update %s %s --get %s` gets its answer", err, c.RunID,
		c.Name, id)
}
