package httpapi_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// The API in a program with its own users, below a path prefix.
func ExampleNew() {
	h, err := host.Open(context.Background(), host.Config{Dir: "data"})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Println(h.Run(context.Background())) }()
	session := func(r *http.Request) (user string, ok bool) { user, _, ok = r.BasicAuth(); return user, ok }
	api := httpapi.New(h, httpapi.Access{
		Authenticate: func(r *http.Request) (host.Token, error) {
			user, ok := session(r)
			if !ok {
				return host.Token{}, errors.New("log in first")
			}
			return host.Token{Name: user, Namespace: "default", Scopes: []host.Scope{host.ScopeRead, host.ScopeRun}}, nil
		},
		Audit: func(rec httpapi.Record) {
			slog.Info("api", "by", rec.Caller, "did", rec.Endpoint, "status", rec.Status)
		},
	}, httpapi.WithPrefix("/flows"))
	http.Handle("/flows/", api)
	log.Println(http.ListenAndServe("127.0.0.1:8080", nil))
}
