package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// fleet is a cluster of hosts over one store in memory, in real time.
type fleet struct {
	t     *testing.T
	data  *memstore.Data
	hosts []*node
	turn  atomic.Int64
}

type node struct {
	h      *host.Host
	store  *mortal
	client *client.Client
	api    http.Handler
	url    string
	stop   func()
}

// mortal is a store that can be cut off from its data.
type mortal struct {
	*memstore.Store
	cut  atomic.Bool
	slow atomic.Bool // Acquire takes several leases
}

var errCut = fmt.Errorf("%w: cut off", store.ErrUnavailable)

func (m *mortal) Commit(ctx context.Context, groups []store.Group) error {
	if m.cut.Load() {
		return errCut
	}
	return m.Store.Commit(ctx, groups)
}

func (m *mortal) Acquire(ctx context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	if m.slow.Load() {
		pause(4 * clusterLease)
	}
	if m.cut.Load() {
		return nil, errCut
	}
	return m.Store.Acquire(ctx, p, owner, ttl)
}

type mortalMember struct {
	store.Membership
	of *mortal
}

func (m *mortal) Join(ctx context.Context, x store.Member, ttl time.Duration) (store.Membership, store.View, error) {
	if m.cut.Load() {
		return nil, store.View{}, errCut
	}
	ms, v, err := m.Store.Join(ctx, x, ttl)
	return mortalMember{ms, m}, v, err
}

func (m mortalMember) Beat(ctx context.Context, x store.Member) (store.View, error) {
	if m.of.cut.Load() {
		return store.View{}, errCut
	}
	return m.Membership.Beat(ctx, x)
}

// clusterLease is long enough that a busy machine does not make hosts give up their runs.
const clusterLease = 3 * time.Second

func newFleet(t *testing.T, n int) *fleet {
	f := &fleet{t: t, data: memstore.New()}
	f.data.NowMs = func() int64 { return clock.System().Now().UnixMilli() }
	for range n {
		f.add()
	}
	f.rest()
	return f
}

func (f *fleet) add() *node {
	f.t.Helper()
	front := NewFront("", nil)
	server := httptest.NewServer(front)
	x := &node{store: &mortal{Store: f.data.Open()}, url: server.URL}
	h, err := host.Open(context.Background(), host.Config{Store: x.store, Cluster: &host.Cluster{Name: fmt.Sprint("host-", len(f.hosts)),
		Address: server.URL, Key: []byte(strings.Repeat("k", 32)), Lease: clusterLease, Weight: 1}})
	if err != nil {
		f.t.Fatal(err)
	}
	h.HandleRawStep("block", func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err := h.HandleRemote("print"); err != nil {
		f.t.Fatal(err)
	}
	front.Open(New(h, Access{Local: local, Streams: 40}, WithPage()))
	x.h, x.api = h, front
	x.client, err = client.New(server.URL, client.WithToken(local), client.WithPatience(10*time.Second))
	if err != nil {
		f.t.Fatal(err)
	}
	running, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- h.Run(running) }()
	var stopped atomic.Bool
	x.stop = func() {
		if !stopped.CompareAndSwap(false, true) {
			return
		}
		cancel()
		if err := errors.Join(<-ran, h.Close()); err != nil {
			f.t.Error(err)
		}
		server.Close()
	}
	f.t.Cleanup(x.stop)
	f.hosts = append(f.hosts, x)
	return x
}

// settle waits until live hosts own all partitions, each one of them, and returns how many each has.
func (f *fleet) settle(without ...*node) []int {
	f.t.Helper()
	for began := clock.System().Now(); ; {
		var counts, all []int
		for _, x := range f.hosts {
			if slices.Contains(without, x) {
				continue
			}
			ps := x.h.Partitions()
			counts, all = append(counts, len(ps)), append(all, ps...)
		}
		slices.Sort(all)
		if len(all) == host.NumPartitions && len(slices.Compact(all)) == host.NumPartitions {
			return counts
		}
		if clock.System().Now().Sub(began) > 60*time.Second {
			f.t.Fatalf("the hosts own %v partitions", counts)
		}
		pause(5 * time.Millisecond)
	}
}

// rest waits until no partitions move any more: the first host had all.
func (f *fleet) rest() {
	f.t.Helper()
	for was, same := f.settle(), 0; same < 20; {
		pause(100 * time.Millisecond)
		now := f.settle()
		if same++; !slices.Equal(now, was) || slices.Contains(now, 0) {
			was, same = now, 0
		}
	}
}

func pause(d time.Duration) { <-clock.System().NewTimer(d).C() }

// next returns another host with each call.
func (f *fleet) next() *node { return f.hosts[int(f.turn.Add(1))%len(f.hosts)] }

func (f *fleet) any() *client.Client { return f.next().client }

func (f *fleet) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// naps uploads workflows that sleep, named by how long.
func (f *fleet) naps(times ...string) {
	f.t.Helper()
	for _, d := range times {
		m := wasmgen.New(0)
		m.Text("nap").Text(d).Call(abi.FnSleepText).Drop()
		_, err := f.next().h.Upload(f.t.Context(), "nap-"+d, m.I32(0).Export(abi.ExportRun).Bytes())
		f.ok(err)
	}
}

// TestClusterMovesBusyPartitions adds a host to one whose partitions all have an attempt that does not end.
func TestClusterMovesBusyPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f := newFleet(t, 1)
	f.steps("block")
	busy := map[store.PartitionID]bool{}
	for i := 0; len(busy) < store.Partitions; i++ {
		id := fmt.Sprint("run-", i)
		if p := (store.RunKey{ID: id}).Partition(); !busy[p] {
			busy[p] = true
			_, err := f.any().Start(t.Context(), "step-block", nil, client.StartOptions{ID: id})
			f.ok(err)
		}
	}
	newcomer := f.add()
	for began := clock.System().Now(); len(newcomer.h.Partitions()) < 4; pause(100 * time.Millisecond) {
		if clock.System().Now().Sub(began) > 60*time.Second {
			t.Fatalf("after a minute the newcomer owns %d partitions", len(newcomer.h.Partitions()))
		}
	}
}

// TestClusterLimitsStreams follows a run more often than a caller may, at each host: one of them passes the requests on.
func TestClusterLimitsStreams(t *testing.T) {
	f := newFleet(t, 2)
	f.naps("1h")
	_, err := f.any().Start(t.Context(), "nap-1h", nil, client.StartOptions{ID: "run"})
	f.ok(err)
	text, _, err := f.hosts[0].h.Tokens().Create(t.Context(), host.TokenSpec{Name: "reader", Scopes: []host.Scope{host.ScopeRead}})
	f.ok(err)
	for _, x := range f.hosts {
		ctx, cancel := context.WithCancel(t.Context())
		codes := map[int]int{}
		for range 12 {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url+"/v1/runs/run/output", nil)
			f.ok(err)
			r.Header.Set("Authorization", "Bearer "+text)
			r.Header.Set("Accept", "text/event-stream")
			answer, err := http.DefaultClient.Do(r)
			f.ok(err)
			defer func() { _ = answer.Body.Close() }()
			codes[answer.StatusCode]++
		}
		cancel()
		if codes[http.StatusOK] > 10 || codes[http.StatusTooManyRequests] == 0 {
			t.Errorf("%s answers %v", x.url, codes)
		}
	}
}

// TestCluster does several things with one cluster.
func TestCluster(t *testing.T) {
	f := newFleet(t, 3)
	for name, test := range map[string]func(*testing.T){"answers anywhere": f.answersAnywhere, "workers": f.workers,
		"children": f.children, "page": f.visits, "events": f.events, "versions": f.versions} {
		t.Run(name, func(t *testing.T) {
			defer func(whole *testing.T) { f.t = whole }(f.t)
			f.t = t
			test(t)
		})
	}
}

// answersAnywhere sends each request about a run to a different host each time.
func (f *fleet) answersAnywhere(t *testing.T) {
	ctx := t.Context()
	f.naps("1h")
	for i := range 40 {
		id := fmt.Sprint("answersAnywhere-", i)
		r, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{ID: id})
		f.ok(err)
		if r.ID != id {
			t.Fatalf("%+v", r)
		}
		again, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{ID: id})
		f.ok(err)
		if !again.Existed {
			t.Errorf("%s was started twice", id)
		}
		if _, err := f.any().Start(ctx, "nap-1h", 2, client.StartOptions{ID: id}); !isCode(err, "conflict") {
			t.Errorf("another input: %v", err)
		}
		n, err := f.any().Wake(ctx, id, "nap")
		f.ok(err)
		if n != 1 {
			t.Errorf("%s: %d sleeps were ended", id, n)
		}
		r, err = f.any().Wait(ctx, id)
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
		var kinds []string
		for e, err := range f.any().FollowJournal(ctx, id, -1, 0) {
			f.ok(err)
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) < 3 || kinds[0] != "started" || kinds[len(kinds)-1] != "completed" {
			t.Error(kinds)
		}
	}
	for _, x := range f.hosts { // two thirds of the requests
		if s, err := x.h.ClusterStats(); err != nil || s.Forwards[host.ForwardAnswered] < 20 || s.Forwards[host.ForwardRefused] != 0 {
			t.Errorf("%+v %v", s, err)
		}
	}
	for i := range 20 {
		_, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{ID: fmt.Sprint("many-", i), Attributes: map[string]string{"of": "many"}})
		f.ok(err)
	}
	for _, action := range []string{"pause", "unpause", "terminate", "delete"} {
		b, err := f.any().Bulk(ctx, client.Bulk{Action: action, Attributes: map[string]string{"of": "many"}})
		f.ok(err)
		if b.Changed != 20 || len(b.Errors) > 0 {
			t.Errorf("%s: %+v", action, b)
		}
	}
	drawn, err := f.any().Start(ctx, "nap-1h", 1, client.StartOptions{})
	f.ok(err)
	f.ok(f.any().Terminate(ctx, drawn.ID))
	f.ok(f.any().Delete(ctx, drawn.ID))
	if _, err := f.any().Get(ctx, drawn.ID); !isCode(err, "not_found") {
		t.Error(err)
	}
}

func isCode(err error, code string) bool {
	p, ok := errors.AsType[*client.Error](err)
	return ok && p.Code == code
}

// TestClusterLosesAHost cuts a host off from the store: others take its runs over, and it comes back. Then one leaves.
func TestClusterLosesAHost(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f := newFleet(t, 3)
	ctx := t.Context()
	f.naps("2s")
	for i := range 60 {
		_, err := f.any().Start(ctx, "nap-2s", nil, client.StartOptions{ID: fmt.Sprint("run-", i)})
		f.ok(err)
	}
	gone := f.hosts[1]
	had := len(gone.h.Partitions())
	gone.store.cut.Store(true)
	began := clock.System().Now()
	counts := f.settle(gone)
	if took := clock.System().Now().Sub(began); took > 5*clusterLease || had == 0 {
		t.Errorf("the runs of %d partitions were without a host for %v", had, took)
	}
	t.Logf("after the loss: %v", counts)
	left := []*client.Client{f.hosts[0].client, f.hosts[2].client}
	for i := range 60 {
		r, err := left[i%2].Wait(ctx, fmt.Sprint("run-", i))
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
	}
	for n := 0; len(gone.h.Partitions()) > 0; n++ {
		if pause(10 * time.Millisecond); n > 200 {
			t.Fatalf("the host that is cut off thinks that it owns %v", gone.h.Partitions())
		}
	}
	gone.store.cut.Store(false)
	for len(gone.h.Partitions()) == 0 { // after the ten seconds for which newcomers wait
		pause(50 * time.Millisecond)
	}
	f.settle()
	f.hosts[2].stop()
	f.settle(f.hosts[2])
}

// steps uploads a workflow that makes a step of a handler, by its name.
func (f *fleet) steps(handlers ...string) {
	f.t.Helper()
	for _, name := range handlers {
		m := wasmgen.New(0)
		m.Text("one").Text("host/" + name).Text(`"in"`).Text("{}").I32(2048).I32(64).Call(abi.FnStepDo).Drop()
		_, err := f.hosts[0].h.Upload(f.t.Context(), "step-"+name, m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("*"))
		f.ok(err)
	}
}

// call makes a request of a different host each time.
func (f *fleet) call(method, path, body string, out any) int {
	f.t.Helper()
	return f.callOf(f.next(), method, path, body, out)
}

// callOf makes a request, and repeats it while runs move, as clients do.
func (f *fleet) callOf(x *node, method, path, body string, out any) (code int) {
	f.t.Helper()
	for began := clock.System().Now(); clock.System().Now().Sub(began) < 10*time.Second; pause(50 * time.Millisecond) {
		if code = f.once(x, method, path, body, out); code != http.StatusServiceUnavailable {
			break
		}
	}
	return code
}

func (f *fleet) once(x *node, method, path, body string, out any) int {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, x.url+path, strings.NewReader(body))
	f.ok(err)
	r.Header.Set("Authorization", "Bearer "+local)
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	f.ok(err)
	defer func() { _ = a.Body.Close() }()
	b, err := io.ReadAll(a.Body)
	f.ok(err)
	if out != nil && a.StatusCode < 300 {
		f.ok(decodeAnswer(b, out))
	}
	return a.StatusCode
}

// workers has workers ask any host: they get the attempts of all hosts, soon, and each once.
func (f *fleet) workers(t *testing.T) {
	f.steps("print")
	const runs = 60
	var wg sync.WaitGroup
	var took atomic.Int64
	seen := sync.Map{}
	for n := range 3 {
		wg.Go(func() {
			for took.Load() < runs {
				var list List[Attempt]
				if code := f.call("GET", fmt.Sprintf("/v1/handlers/print/attempts?wait=2s&max=%d&worker=w%d", n+1, n), "", &list); code != 200 {
					t.Error("take", code)
					return
				}
				for _, a := range list.Items {
					if _, twice := seen.LoadOrStore(a.Run, true); twice {
						t.Errorf("the attempt of %s was given twice", a.Run)
					}
					path := "/v1/handlers/print/attempts/" + a.Lease
					if code := f.call("POST", path+"/heartbeat?lease=20s", "", nil); code != 200 {
						t.Error("heartbeat", code)
					}
					if code := f.call("POST", path+"/complete", `"done"`, nil); code != 204 {
						t.Error("complete", code)
					}
					if code := f.call("POST", path+"/complete", `"done"`, nil); code != 409 {
						t.Error("complete again", code)
					}
					took.Add(1)
				}
			}
		})
	}
	began := clock.System().Now()
	for i := range runs {
		_, err := f.any().Start(t.Context(), "step-print", nil, client.StartOptions{ID: fmt.Sprint("workers-", i)})
		f.ok(err)
	}
	for i := range runs {
		r, err := f.any().Wait(t.Context(), fmt.Sprint("workers-", i))
		f.ok(err)
		if r.Status != "completed" {
			t.Errorf("%+v", r)
		}
	}
	t.Logf("%d steps of workers in %v", runs, clock.System().Now().Sub(began))
	wg.Wait()
	_, err := f.any().Start(t.Context(), "step-print", nil, client.StartOptions{ID: "waits"})
	f.ok(err)
	for n := 0; ; n++ {
		var list List[host.RemoteHandler]
		f.call("GET", "/v1/handlers", "", &list)
		if len(list.Items) == 1 && list.Items[0].Waiting == 1 {
			break
		}
		if pause(10 * time.Millisecond); n > 300 {
			t.Fatalf("%+v", list.Items)
		}
	}
}

// TestClusterSettings sets a quota at one host: when that returns, all hosts keep it.
func TestClusterSettings(t *testing.T) {
	f := newFleet(t, 3)
	f.naps("1h")
	for round := range 3 {
		most := 1 + 2*round
		began := clock.System().Now()
		f.ok(f.hosts[round].h.SetQuota(t.Context(), "default", host.Quota{MaxRuns: int64(most)}))
		if took := clock.System().Now().Sub(began); took > 5*clusterLease {
			t.Errorf("setting a quota took %v", took)
		}
		for i := range 10 {
			code := f.callOf(f.hosts[(round+1+i)%3], "POST", "/v1/workflows/nap-1h/runs", "{}", nil)
			if code != http.StatusCreated && code != http.StatusTooManyRequests {
				t.Error(code)
			}
		}
		n, err := f.any().Count(t.Context(), "")
		f.ok(err)
		if live := n.Total; int(live) != most {
			t.Errorf("%d live runs, the quota is %d", live, most)
		}
	}
	const perSecond = 30 // of which each host has a third
	f.ok(f.hosts[0].h.SetQuota(t.Context(), "default", host.Quota{StartsPerSecond: perSecond}))
	began, started := clock.System().Now(), 0
	for i := range 5 * perSecond {
		if f.callOf(f.hosts[i%3], "POST", "/v1/workflows/nap-1h/runs", "{}", nil) == http.StatusCreated {
			started++
		}
	}
	took := clock.System().Now().Sub(began)
	// Each host alone would let as many through. If a busy machine makes a host lose its lease, the parts begin anew.
	if most := 2 * perSecond * (1 + took.Seconds()); float64(started) > most || started < perSecond {
		t.Errorf("%d runs were started within %v, the quota is %d a second", started, took, perSecond)
	}
}

// children has runs start children and await them, whatever hosts have them: the parents need not wait for a poll.
func (f *fleet) children(t *testing.T) {
	m := wasmgen.New(0)
	m.Text("kid").Text("nap-1ms").I32(0).I32(0).I32(0).I32(0).Call(abi.FnChildStart).Drop()
	m.I32(0).I32(0).Call(abi.FnAwait).Drop()
	_, err := f.hosts[0].h.Upload(t.Context(), "parent", m.I32(0).Export(abi.ExportRun).Bytes())
	f.ok(err)
	f.naps("1ms")
	var took []time.Duration
	for i := range 40 {
		began := clock.System().Now()
		id := fmt.Sprint("children-", i)
		_, err := f.any().Start(t.Context(), "parent", nil, client.StartOptions{ID: id})
		f.ok(err)
		r, err := f.any().Wait(t.Context(), id)
		f.ok(err)
		if r.Status != "completed" {
			t.Fatalf("%+v", r)
		}
		took = append(took, clock.System().Now().Sub(began))
	}
	slices.Sort(took)
	t.Logf("start to end of a parent with a child: median %v, longest %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 300*time.Millisecond {
		t.Error("the median is too long: the hosts do not hear of children")
	}
}

// visits logs in at one host, and acts on runs at the pages of all of them.
func (f *fleet) visits(t *testing.T) {
	f.naps("1h")
	text, token, err := f.hosts[0].h.Tokens().Create(t.Context(), host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeOperate}})
	f.ok(err)
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	cookie := ""
	visit := func(i int, path string, form url.Values) (int, string) {
		t.Helper()
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(t.Context(), method, f.hosts[i].url+path, strings.NewReader(form.Encode()))
		f.ok(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", f.hosts[i].url)
		r.Header.Set("Cookie", cookie)
		a, err := browser.Do(r)
		f.ok(err)
		defer func() { _ = a.Body.Close() }()
		b, err := io.ReadAll(a.Body)
		f.ok(err)
		if c := a.Header.Get("Set-Cookie"); c != "" && cookie == "" {
			cookie, _, _ = strings.Cut(c, ";")
		}
		return a.StatusCode, string(b)
	}
	if code, _ := visit(1, "/login", url.Values{"token": {text}}); code != http.StatusSeeOther {
		t.Fatal("login", code)
	}
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`)
	for i := range 12 {
		id := fmt.Sprint("visits-", i)
		_, err := f.any().Start(t.Context(), "nap-1h", nil, client.StartOptions{ID: id})
		f.ok(err)
		code, body := visit(i%3, "/runs/"+id+"/do/terminate", nil)
		m := csrf.FindStringSubmatch(body)
		if code != http.StatusOK || m == nil {
			t.Fatalf("%s: %d %s", id, code, body)
		}
		if code, body := visit((i/3)%3, "/runs/"+id+"/do/terminate", url.Values{"csrf": {m[1]}}); code != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", id, code, body)
		}
		if code, body := visit((i+1)%3, "/runs/"+id, nil); code != http.StatusOK || !strings.Contains(body, "terminated") {
			t.Errorf("%s: %d", id, code)
		}
	}
	f.ok(f.hosts[2].h.Tokens().Revoke(t.Context(), token.ID))
	for i := range 3 {
		if code, _ := visit(i, "/runs/visits-1", nil); code != http.StatusSeeOther {
			t.Errorf("after the token was revoked: %d", code)
		}
	}
}

// events follows all runs at one host, and hears of the runs of all of them.
func (f *fleet) events(t *testing.T) {
	f.naps("1ms")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const runs = 30
	ended := map[string]bool{}
	var started sync.WaitGroup
	defer started.Wait()
	starts := func() {
		for i := range runs {
			_, err := f.any().Start(ctx, "nap-1ms", nil, client.StartOptions{ID: fmt.Sprint("events-", i)})
			f.ok(err)
		}
	}
	for r, err := range f.hosts[1].client.FollowRuns(ctx, "nap-1ms", func() { started.Go(starts) }) {
		f.ok(err)
		if r.Status == client.Completed {
			ended[r.ID] = true
		}
		if len(ended) == runs {
			break
		}
	}
}

// TestClusterSlowAcquire has the store take long to give a partition to a host: the host shows life meanwhile, and keeps what it has.
func TestClusterSlowAcquire(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f := newFleet(t, 3)
	f.hosts[1].store.slow.Store(true)
	f.hosts[0].store.cut.Store(true)
	for began := clock.System().Now(); clock.System().Now().Sub(began) < 5*clusterLease; pause(100 * time.Millisecond) {
		list, err := f.hosts[2].h.Hosts()
		f.ok(err)
		if !slices.ContainsFunc(list, func(x host.HostInfo) bool { return x.Name == "host-1" }) {
			t.Fatalf("host-1 has shown no life; it thinks that it owns %v", f.hosts[1].h.Partitions())
		}
	}
	f.settle(f.hosts[0])
}

// versions deletes versions at one host while others start runs of them: a version with a run stays.
func (f *fleet) versions(t *testing.T) {
	deleted := 0
	for i := range 20 {
		m := wasmgen.New(0)
		m.Text("nap").Text(fmt.Sprint(i, "ms")).Call(abi.FnSleepText).Drop()
		v, err := f.hosts[i%3].h.Upload(t.Context(), "many", m.I32(0).Export(abi.ExportRun).Bytes())
		f.ok(err)
		var started atomic.Int64
		var starts sync.WaitGroup
		for n := range 3 {
			starts.Go(func() {
				for k := range i % 7 {
					body := fmt.Sprintf(`{"id":"many-%d-%d-%d","version":%d}`, i, n, k, v.Number)
					switch code := f.callOf(f.hosts[n], "POST", "/v1/workflows/many/runs", body, nil); code {
					case http.StatusCreated:
						started.Add(1)
					case http.StatusNotFound:
					default:
						t.Errorf("start: %d", code)
					}
				}
			})
		}
		code := f.callOf(f.hosts[(i+1)%3], "DELETE", fmt.Sprint("/v1/workflows/many/versions/", v.Number), "", nil)
		starts.Wait()
		switch {
		case code == http.StatusNoContent && started.Load() == 0:
			deleted++
		case code == http.StatusNoContent:
			t.Errorf("version %d was deleted, and %d runs of it were started", v.Number, started.Load())
		case code != http.StatusConflict:
			t.Errorf("deletion: %d", code)
		}
	}
	if deleted == 0 {
		t.Error("no version was deleted")
	}
}
