package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestServeMetrics scrapes a server: at its own address with a token, and without one at the metrics address, which
// serves nothing else.
func TestServeMetrics(t *testing.T) {
	address, data := freeAddress(t), t.TempDir()
	p := serveProcess(t, data, address, "--metrics-listen", "127.0.0.1:0")
	line, err := p.lines.ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "metrics at ")
	if err != nil || !ok {
		t.Fatal(line, err)
	}
	code, out, errs := command("--server", "http://"+address, "tokens", "create", "--scope", "read", "--all-namespaces", "--name", "prometheus")
	if code != exitOK {
		t.Fatal(code, errs)
	}
	token := strings.TrimSpace(out)
	for url, token := range map[string]string{at: "", "http://" + address + "/metrics": token} {
		if code, text := get(t, url, token); code != http.StatusOK || !strings.Contains(text, "\nwfhost_partitions 64\n") ||
			!strings.Contains(text, "\nwfhost_store_bytes ") || !strings.Contains(text, "\nwfhost_disk_free_bytes ") ||
			!strings.Contains(text, "\ngo_goroutines ") || !strings.Contains(text, "\nwfhost_build_info{goversion=\"go") {
			t.Errorf("%s: %d %.3000s", url, code, text)
		}
	}
	if code, _ := get(t, "http://"+address+"/metrics", ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, text := get(t, strings.TrimSuffix(at, "metrics")+"v1/runs", token); code != http.StatusNotFound {
		t.Errorf("%d %s", code, text)
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	p = serveProcess(t, data, address, "--no-metrics")
	if code, text := get(t, "http://"+address+"/metrics", token); code != http.StatusNotFound || !strings.Contains(text, "without metrics") {
		t.Errorf("%d %s", code, text)
	}
	_ = p.Process.Kill()
	_ = p.Wait()
}
