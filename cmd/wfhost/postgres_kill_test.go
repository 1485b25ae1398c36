//go:build kill

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

var postgresRounds = flag.Int("kill.postgres", 10, "how often TestKillPostgres kills the server and the database")

// TestKillPostgres kills a real server and its database in turns, as kill -9 does, while 50 runs sleep and step. Every run that
// was acknowledged finishes, no step's result is missing or recorded twice, and no timer is early. A third of the runs is started in
// transactions, also while no server runs, and none of these starts is done twice.
func TestKillPostgres(t *testing.T) {
	database := pgtest.New(t, pgtest.Durable...)
	database.Exec(t, "postgres", "create database wf")
	exe := binary(t)
	address := freeAddress(t)
	start := func() func(bool) { return startServer(t, exe, t.TempDir(), address, "--store", database.URL("wf")) }
	stop := start()
	post := poster(t, address)
	if code := post("PUT", "/v1/workflows/killed/versions", buildGuest(t, "testdata/killed"), nil); code != http.StatusCreated {
		t.Fatal("upload", code)
	}
	var acknowledged []string
	for round := range *postgresRounds {
		for i := range killRuns {
			id := fmt.Sprintf("r%d-%d", round, i)
			input := fmt.Sprint(200 + 37*i%700)
			if i%3 == 0 {
				database.Exec(t, "wf", "select wfhost.start('killed', $1, $2::text::jsonb, on_conflict => 'fail')", id, input)
				acknowledged = append(acknowledged, id)
				continue
			}
			body, _ := json.Marshal(httpapi.StartRequest{ID: id, Input: json.RawMessage(input)})
			switch code := post("POST", "/v1/workflows/killed/runs", body, nil); code {
			case http.StatusCreated:
				acknowledged = append(acknowledged, id)
			case 0:
				t.Fatal("the server went away by itself")
			default:
				t.Fatal("start", code)
			}
			if i == (round*7)%killRuns && round%2 == 0 { // somewhere in the middle of it
				stop(true)
				database.Exec(t, "wf", "select wfhost.start('killed', $1, '300', on_conflict => 'fail')", id+"-down")
				acknowledged = append(acknowledged, id+"-down")
				stop = start()
			}
		}
		<-time.After(time.Duration(round*13%300) * time.Millisecond)
		if round%2 == 1 {
			database.Kill()
			if err := database.Start(); err != nil {
				t.Fatal(err)
			}
			for ready := false; !ready; { // it takes its partitions back, one second after it has found them lost
				ready = post("GET", "/readyz", nil, nil) == http.StatusOK
				<-time.After(100 * time.Millisecond)
			}
			continue
		}
		stop(true)
		stop = start()
	}
	defer func() { stop(false) }()
	for _, id := range acknowledged {
		for post("GET", "/v1/runs/"+id, nil, nil) == http.StatusNotFound { // it is about to be started
			<-time.After(10 * time.Millisecond)
		}
		check(t, post, id)
	}
	// A request may be tried again some seconds after its run was started: the answer to the commit was lost.
	database.Exec(t, "wf", `do $$ begin
		for i in 1..600 loop
			exit when not exists (select from wfhost.requests where refused is null);
			perform pg_sleep(0.1);
		end loop;
		assert not exists (select from wfhost.requests), (select string_agg(r::text, '; ') from wfhost.requests r);
	end $$`)
	t.Log(len(acknowledged), "runs")
}
