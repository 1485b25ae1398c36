package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// deployed is the process that a file in deploy starts, as the file describes it.
type deployed struct {
	file  string
	args  []string
	grace time.Duration // from SIGTERM to SIGKILL
}

// at returns the value in a document at a path of keys and indices, nil if there is none.
func at(doc any, path ...any) any {
	for _, p := range path {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[fmt.Sprint(p)]
		case []any:
			n, ok := p.(int)
			if !ok || n >= len(d) {
				return nil
			}
			doc = d[n]
		default:
			return nil
		}
	}
	return doc
}

func documents(t *testing.T, path string) (all []any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for d := yaml.NewDecoder(f); ; {
		var doc any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, x := range items {
		all = append(all, fmt.Sprint(x))
	}
	return all
}

// check checks that the command line is accepted, and that the drain ends before the process is killed.
func (d deployed) check(t *testing.T) {
	t.Helper()
	parser, c, err := newParser(stdio{out: io.Discard, err: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(d.args); err != nil {
		t.Fatalf("%s: wfhost %q: %v", d.file, d.args, err)
	}
	if err := c.Serve.check(); err != nil {
		t.Errorf("%s: wfhost %q: %v", d.file, d.args, err)
	}
	if c.Serve.Drain+5*time.Second > d.grace {
		t.Errorf("%s: the drain takes %v, and the process is killed after %v", d.file, c.Serve.Drain, d.grace)
	}
}

// TestDeployUnit checks the systemd unit and the config file that it names.
func TestDeployUnit(t *testing.T) {
	if faults := (&globals{io: stdio{out: io.Discard, err: io.Discard}}).checkConfig("../../deploy/wfhost.yaml"); len(faults) > 0 {
		t.Error(faults)
	}
	b, err := os.ReadFile("../../deploy/wfhost.service")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			set[name] = value
		}
	}
	grace, err := time.ParseDuration(set["TimeoutStopSec"])
	args, ok := strings.CutPrefix(set["ExecStart"], "/usr/local/bin/wfhost ")
	if err != nil || !ok || set["Type"] != "notify" || set["WatchdogSec"] == "" || set["MemoryDenyWriteExecute"] != "" ||
		set["StartLimitIntervalSec"] != "0" || set["RestartSec"] != "1s" {
		t.Errorf("%v %v", set, err)
	}
	args = strings.Replace(args, "/etc/wfhost/wfhost.yaml", "../../deploy/wfhost.yaml", 1)
	deployed{"wfhost.service", strings.Fields(args), grace}.check(t)
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: the unit was read by this test only")
	}
	copied := filepath.Join(t.TempDir(), "wfhost.service") // with a program that is there
	if err := os.WriteFile(copied, []byte(strings.Replace(string(b), "/usr/local/bin/wfhost", "/bin/true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", "--man=no", copied).CombinedOutput(); err != nil || strings.Contains(string(out), "wfhost.service") {
		t.Errorf("%v %s", err, out)
	}
}

// TestDeployImage checks the Dockerfile and the compose file.
func TestDeployImage(t *testing.T) {
	b, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	_, last, _ := strings.Cut(text, "\nFROM scratch\n")
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) || !strings.Contains(last, `ENTRYPOINT ["/wfhost"]`) ||
		strings.Contains(text, ":latest") {
		t.Error(text)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if !strings.Contains(text, "FROM golang:"+string(version[1])+" AS build") {
		t.Errorf("go.mod wants Go %s", version[1])
	}
	doc := documents(t, "../../deploy/compose.yaml")[0]
	s := at(doc, "services", "wfhost")
	grace, err := time.ParseDuration(fmt.Sprint(at(s, "stop_grace_period")))
	if err != nil || at(s, "read_only") != true || at(s, "user") != "65532:65532" || !slices.Equal(texts(at(s, "cap_drop")), []string{"ALL"}) {
		t.Errorf("%v %v", s, err)
	}
	deployed{"compose.yaml", texts(at(s, "command")), grace}.check(t)
}

// TestDeployKubernetes checks the manifest: a single server, its probes, and its restrictions.
func TestDeployKubernetes(t *testing.T) {
	docs := documents(t, "../../deploy/kubernetes.yaml")
	i := slices.IndexFunc(docs, func(d any) bool { return at(d, "kind") == "StatefulSet" })
	if i < 0 || at(docs[i], "spec", "replicas") != 1 {
		t.Fatal("there must be one StatefulSet with one replica: two servers do not share their data")
	}
	pod := at(docs[i], "spec", "template", "spec")
	c := at(pod, "containers", 0)
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		get := at(c, probe, "httpGet")
		if at(get, "path") != path || at(get, "scheme") != "HTTPS" || at(get, "port") != at(c, "ports", 0, "name") {
			t.Errorf("%s: %v", probe, get)
		}
	}
	if at(pod, "securityContext", "runAsNonRoot") != true || at(c, "securityContext", "readOnlyRootFilesystem") != true ||
		at(c, "securityContext", "allowPrivilegeEscalation") != false {
		t.Error("it may do too much")
	}
	mounted := map[string]bool{}
	for _, m := range at(c, "volumeMounts").([]any) { //nolint:forcetypeassert // a failure is one
		mounted[fmt.Sprint(at(m, "name"))] = true
	}
	if !mounted[fmt.Sprint(at(docs[i], "spec", "volumeClaimTemplates", 0, "metadata", "name"))] {
		t.Error("the data is not in the claimed volume")
	}
	labels := fmt.Sprint(at(docs[i], "spec", "template", "metadata", "labels"))
	for _, selector := range []any{at(docs[i], "spec", "selector", "matchLabels"), at(docs[0], "spec", "selector")} {
		if fmt.Sprint(selector) != labels {
			t.Errorf("%v selects no pod with %s", selector, labels)
		}
	}
	grace := at(pod, "terminationGracePeriodSeconds")
	n, ok := grace.(int)
	if !ok {
		t.Fatal(grace)
	}
	deployed{"kubernetes.yaml", texts(at(c, "args")), time.Duration(n) * time.Second}.check(t)
}

// member checks that the command line is accepted, and makes a member of a cluster of the name and address.
func (d deployed) member(t *testing.T, name, address string) {
	t.Helper()
	key, ca := filepath.Join(t.TempDir(), "key"), newAuthority(t).path("ca.pem")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", leastClusterKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	d.check(t)
	io := stdio{out: io.Discard, err: io.Discard}
	parser, c, err := newParser(io, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(d.args); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(c.Serve.ClusterKey), "file:/") || !strings.HasPrefix(string(c.Serve.Store), "file:/") ||
		c.Serve.ClusterCA == "" || c.Serve.TLSCert == "" {
		t.Errorf("%s: %q", d.file, d.args)
	}
	c.Serve.ClusterKey, c.Serve.ClusterCA = source("file:"+key), ca
	m, err := c.Serve.cluster(&globals{io: io, ctx: t.Context()}, c.Serve.Listen)
	if err != nil || m.Name != name || m.Address != address {
		t.Errorf("%s: %+v %v", d.file, m, err)
	}
	if lease := cmp.Or(c.Serve.Lease, 5*time.Second); c.Serve.Drain+lease+5*time.Second > d.grace {
		t.Errorf("%s: the drain takes %v, giving runs away %v, and the process is killed after %v", d.file, c.Serve.Drain, lease, d.grace)
	}
}

// TestDeployClusterKubernetes checks the manifest of three servers: their names, how they reach each other, and how they end.
func TestDeployClusterKubernetes(t *testing.T) {
	docs := documents(t, "../../deploy/cluster.yaml")
	of := func(kind string) any {
		i := slices.IndexFunc(docs, func(d any) bool { return at(d, "kind") == kind })
		if i < 0 {
			t.Fatalf("there is no %s", kind)
		}
		return docs[i]
	}
	set := of("StatefulSet")
	pod := at(set, "spec", "template", "spec")
	c := at(pod, "containers", 0)
	names := docs[1]
	if at(set, "spec", "replicas") != 3 || at(set, "spec", "podManagementPolicy") != "Parallel" ||
		at(names, "metadata", "name") != at(set, "spec", "serviceName") || at(names, "spec", "clusterIP") != "None" ||
		at(names, "spec", "publishNotReadyAddresses") != true {
		t.Error("the servers have no names, or a server that drains cannot be reached by the others")
	}
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		get := at(c, probe, "httpGet")
		if at(get, "path") != path || at(get, "scheme") != "HTTPS" || at(get, "port") != at(c, "ports", 0, "name") {
			t.Errorf("%s: %v", probe, get)
		}
	}
	if at(pod, "securityContext", "runAsNonRoot") != true || at(c, "securityContext", "readOnlyRootFilesystem") != true ||
		at(c, "securityContext", "allowPrivilegeEscalation") != false {
		t.Error("it may do too much")
	}
	labels := fmt.Sprint(at(set, "spec", "template", "metadata", "labels"))
	for _, selector := range []any{at(set, "spec", "selector", "matchLabels"), at(docs[0], "spec", "selector"), at(names, "spec", "selector"),
		at(of("PodDisruptionBudget"), "spec", "selector", "matchLabels"), at(of("NetworkPolicy"), "spec", "podSelector", "matchLabels")} {
		if fmt.Sprint(selector) != labels {
			t.Errorf("%v selects no pod with %s", selector, labels)
		}
	}
	if at(of("NetworkPolicy"), "spec", "ingress", 0, "ports", 0, "port") != at(c, "ports", 0, "name") ||
		at(of("PodDisruptionBudget"), "spec", "maxUnavailable") != 1 {
		t.Error("the servers do not reach each other, or two may be taken away at a time")
	}
	volumes := map[string]bool{}
	for _, v := range at(pod, "volumes").([]any) { //nolint:forcetypeassert // a failure is one
		volumes[fmt.Sprint(at(v, "name"))] = true
	}
	for _, m := range at(c, "volumeMounts").([]any) { //nolint:forcetypeassert // a failure is one
		if !volumes[fmt.Sprint(at(m, "name"))] {
			t.Errorf("there is no volume %v", at(m, "name"))
		}
	}
	grace, _ := at(pod, "terminationGracePeriodSeconds").(int)
	pause, _ := at(c, "lifecycle", "preStop", "sleep", "seconds").(int)
	replace := strings.NewReplacer("$(POD_NAME)", "wfhost-1", "$(POD_NAMESPACE)", "shop")
	var args []string
	for _, a := range texts(at(c, "args")) {
		args = append(args, replace.Replace(a))
	}
	deployed{"cluster.yaml", args, time.Duration(grace-pause) * time.Second}.member(t, "wfhost-1", "https://wfhost-1.wfhost-hosts.shop.svc:7777")
}

// TestDeployClusterCompose checks the file of three servers behind nginx, and nginx's configuration.
func TestDeployClusterCompose(t *testing.T) {
	doc := documents(t, "../../deploy/compose-cluster.yaml")[0]
	b, err := os.ReadFile("../../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	var behind []string
	for _, m := range regexp.MustCompile(`(?m)^ *server (\w+):7777 `).FindAllStringSubmatch(string(b), -1) {
		behind = append(behind, m[1])
	}
	if !slices.Equal(behind, []string{"a", "b", "c"}) {
		t.Errorf("nginx knows %q", behind)
	}
	for _, name := range behind {
		s := at(doc, "services", name)
		grace, err := time.ParseDuration(fmt.Sprint(at(s, "stop_grace_period")))
		if err != nil || at(s, "read_only") != true || at(s, "user") != "65532:65532" || !slices.Equal(texts(at(s, "cap_drop")), []string{"ALL"}) ||
			at(s, "depends_on", "db", "condition") != "service_healthy" {
			t.Errorf("%s: %v %v", name, s, err)
		}
		deployed{"compose-cluster.yaml", texts(at(s, "command")), grace}.member(t, name, "https://"+name+":7777")
	}
	if at(doc, "services", "db", "healthcheck", "test") == nil {
		t.Error("the servers would not wait for the database")
	}
}

// TestDeployClusterUnit checks the config file of a server of a cluster under systemd.
func TestDeployClusterUnit(t *testing.T) {
	if faults := (&globals{io: stdio{out: io.Discard, err: io.Discard}}).checkConfig("../../deploy/wfhost-cluster.yaml"); len(faults) > 0 {
		t.Error(faults)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	d := deployed{"wfhost-cluster.yaml", []string{"serve", "--config", "../../deploy/wfhost-cluster.yaml"}, 45 * time.Second}
	d.member(t, name, "https://"+name+":7777")
}
