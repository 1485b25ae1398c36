// Command embed is a Go program with durable workflows inside: it opens a host, registers a handler that sends mail
// over SMTP, uploads the workflow in ./campaign and runs it.
//
//	go run ./examples/embed -smtp 127.0.0.1:1025 -to ada@example.com
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/wfhost/wfhost/host"
)

// Mail is what the workflow hands to the handler.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

func main() {
	server := flag.String("smtp", "127.0.0.1:1025", "address of the mail server")
	to := flag.String("to", "ada@example.com", "who gets the mails")
	dir := flag.String("data", "", "folder for the data; default: a temporary one")
	campaign := flag.String("campaign", "examples/embed/campaign", "folder of the workflow")
	skip := flag.Bool("skip-sleep", false, "jump over sleeps")
	flag.Parse()
	n, err := run(context.Background(), *server, *to, *dir, *campaign, *skip)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sent", n, "mails")
}

func run(ctx context.Context, server, to, dir, campaign string, skip bool) (n int, err error) {
	if dir == "" {
		dir, err = os.MkdirTemp("", "embed-")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	h, err := host.Open(ctx, host.Config{Dir: dir, SkipSleeps: skip})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()

	host.HandleStep(h, "mail", func(ctx context.Context, m Mail) (string, error) {
		id := host.StepInfo(ctx).IdempotencyKey // the same at every attempt: mail servers drop the second one
		text := fmt.Sprintf("From: shop@example.com\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%s@example.com>\r\n\r\nHello!\r\n",
			m.To, m.Subject, id)
		return id, smtp.SendMail(server, nil, "shop@example.com", []string{m.To}, []byte(text))
	})

	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-done) }()

	wasm, err := build(campaign, dir)
	if err != nil {
		return 0, err
	}
	if _, err := h.Upload(ctx, "campaign", wasm, host.AllowStep("mail")); err != nil {
		return 0, err
	}
	run, err := h.Start(ctx, "campaign", to)
	if err != nil {
		return 0, err
	}
	return host.Result[int](ctx, h, run.ID)
}

// build compiles the workflow; a real program would embed the file.
func build(dir, tmp string) ([]byte, error) {
	out := filepath.Join(tmp, "campaign.wasm")
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", dir, err, b)
	}
	return os.ReadFile(out)
}
