package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// mailServer takes mails by SMTP (RFC 5321) and keeps their subjects.
type mailServer struct {
	mu       sync.Mutex
	subjects []string
}

func (s *mailServer) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.talk(c)
	}
}

func (s *mailServer) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	say := func(text string) { _, _ = fmt.Fprintf(c, "%s\r\n", text) }
	say("220 test")
	data := false
	for lines := bufio.NewScanner(c); lines.Scan(); {
		line := lines.Text()
		switch {
		case data && line == ".":
			data = false
			say("250 ok")
		case data:
			if subject, ok := strings.CutPrefix(line, "Subject: "); ok {
				s.mu.Lock()
				s.subjects = append(s.subjects, subject)
				s.mu.Unlock()
			}
		case strings.HasPrefix(line, "DATA"):
			data = true
			say("354 go on")
		case strings.HasPrefix(line, "QUIT"):
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestEmbed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := &mailServer{}
	go s.serve(l)
	n, err := run(context.Background(), l.Addr().String(), "ada@example.com", t.TempDir(), "campaign", true)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Join(s.subjects, ",") != "welcome,tips,offer" {
		t.Fatal(s.subjects)
	}
}
