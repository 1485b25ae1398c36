package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/steps/httpstep"
	"github.com/wfhost/wfhost/host/steps/webhook"
)

// handlerFlags define the handlers that are called by URL.
type handlerFlags struct {
	Handler       []string `sep:"none" help:"Handler whose attempts are posted to a URL; repeatable." placeholder:"NAME=URL"`
	HandlerSecret source   `help:"What these requests are signed with: file:PATH, env:NAME or command:PROGRAM." placeholder:"SOURCE"`
}

// register registers the handlers of a host: the built-in handlers and the handlers that the operator has defined, including
// those of workers. It returns the names of all.
func (f *handlerFlags) register(g *globals, h *host.Host, workers []string) (known map[string]bool, err error) {
	httpstep.Register(h)
	known = map[string]bool{httpstep.Name: true}
	claim := func(flag, name string) error {
		if rest, ok := strings.CutPrefix(name, abi.HandlerPrefix); ok {
			return fmt.Errorf("%s %q: leave out %q, which only workflows write: %q", flag, name, abi.HandlerPrefix, rest)
		}
		if known[name] {
			return fmt.Errorf("%s %q: there is a handler of that name", flag, name)
		}
		known[name] = true
		return nil
	}
	if len(f.Handler) > 0 && f.HandlerSecret == "" {
		return nil, errors.New("--handler needs --handler-secret, with which its requests are signed: the service knows by that " +
			"who calls")
	}
	if len(f.Handler) == 0 && f.HandlerSecret != "" {
		return nil, errors.New("--handler-secret signs the requests of --handler, and there is none")
	}
	secrets := func() ([]string, error) {
		b, err := f.HandlerSecret.read(g.ctx, g.io.err)
		return strings.Fields(string(b)), err
	}
	if strings.HasPrefix(string(f.HandlerSecret), "command:") { // the command is not run for each attempt
		list, err := secrets()
		if err != nil {
			return nil, fmt.Errorf("--handler-secret: %w", err)
		}
		secrets = func() ([]string, error) { return list, nil }
	}
	for _, text := range f.Handler {
		name, url, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--handler takes NAME=URL, such as charge=https://pay.internal/charge, got %.300q", text)
		}
		if err := claim("--handler", name); err != nil {
			return nil, err
		}
		if err := webhook.Register(h, name, webhook.Config{URL: url, Secrets: secrets}); err != nil {
			return nil, fmt.Errorf("--handler: %w", err)
		}
	}
	for _, name := range workers {
		if err := claim("--worker-handler", name); err != nil {
			return nil, err
		}
		if err := h.HandleRemote(name); err != nil {
			return nil, fmt.Errorf("--worker-handler: %w", err)
		}
	}
	return known, nil
}
