package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestConfig reads flags from a file. The command line and the environment take precedence. Settings without effect
// are refused, with the value that was given.
func TestConfig(t *testing.T) {
	t.Setenv("SIGNING", strings.Repeat("s", 24))
	dir := t.TempDir()
	path := filepath.Join(dir, "wfhost.yaml")
	line, err := host.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(line, " ")
	data := "\ndata: " + filepath.Join(dir, "data") + "\nhandler-secret: env:SIGNING"
	for _, c := range []struct {
		text   string
		listen string // in the environment
		args   []string
		want   string
	}{
		{"rate: -1", "", nil, "got -1"},
		{`{"rate": -1}`, "", nil, "got -1"},
		{"rate: -1", "", []string{"--rate=-2"}, "got -2"},
		{"max-streams: 0\n# a comment", "", nil, "max-streams"},
		{"listen: 1.2.3.4:1", "", nil, "1.2.3.4:1"},
		{"listen: 1.2.3.4:1", "4.3.2.1:1", nil, "4.3.2.1:1"},
		{"listen: 1.2.3.4:1", "4.3.2.1:1", []string{"--listen", "1.1.1.1:1"}, "1.1.1.1:1"},
		{"host: [api.example.com, 'https://wrong']", "", nil, "https://wrong"},
		{"host: https://wrong", "", nil, "https://wrong"},
		{"handler: [charge=https://pay/a, mail]" + data, "", nil, `"mail"`},
		{"handler: [charge=https://pay/a, charge=https://pay/b]" + data, "", nil, `"charge"`},
		{"worker-handler: [a, host/b]" + data + "\nhandler: c=https://pay/c", "", nil, `"host/b"`},
		{"no-token: perhaps", "", nil, "no-token"},
		{"drain: soon", "", nil, "--drain: invalid duration \"soon\": it should look like 1h30m, 1.5h, 7d"},
		{"drain: 1d\nmodule-idle: -1s", "", nil, "--module-idle must not be negative, got -1s"},
		{"drain: 0\ncompile-cpu: 1d\ncompile-time: 20ms", "", nil, "at least 1s, got 24h0m0s and 20ms"},
		{"drain: 300000w", "", nil, "--drain: "},
		{"park-bytes: 64MiB\njournal-bytes: 1 MiB", "", nil, "got 1048576"},
		{"park-bytes: 64MB", "", nil, "--park-bytes: expected a number of bytes, such as 134217728 or 128MiB (units B KiB MiB GiB), got \"64MB\""},
		{"guest-bytes: 99999999999GiB", "", nil, "--guest-bytes: expected a number of bytes"},
		{"disk-reserve: 1.5GiB", "", nil, "--disk-reserve: expected a number of bytes"},
		{"cache-bytes: 2KiB", "", nil, "got 2048"},
		{"compile-memory: 7B", "", nil, "got 7"},
		{"disk-reserve: 1GiB", "", []string{"--warm-bytes=-5"}, "--warm-bytes must not be negative, got -5"},
		{"rate: 1_0e1\npool-bytes: -1", "", nil, "got -1"},
		{"{}", "", []string{"--rate=-2"}, "got -2"},
		{"rate: 5", "", []string{"--config", path}, "--config is given 2 times"},
		{"encryption-keys: 'k1: " + secret + "'", "", nil, "--encryption-keys: it is a secret itself"},
		{"rate: 5", "", []string{"--encryption-keys", secret}, "--encryption-keys: it is a secret itself"},
		{"rate: 5", "", []string{"--secrets", `{"a": "` + secret + `"}`}, "--secrets: it is a secret itself"},
		{"# nothing", "", nil, "line 1: the file is empty"},
		{"dataa: x", "", nil, `line 1: "dataa" is no flag of serve`},
		{"rate: 5\nserver: x", "", nil, `line 2: "server" is no flag of serve`},
		{"config: x", "", nil, `"config" is no flag of serve`},
		{"rate: 5\nrate: 6", "", nil, "rate"},
		{"rate:", "", nil, "line 1: rate: it should be one value, and is null"},
		{"rate: [1, 2]", "", nil, "line 1: rate: it should be one value"},
		{"host: {a: b}", "", nil, "line 1: host: it should be a value or a list of values, and is an object"},
		{"host:\n- a\n- [b]", "", nil, "line 1: host: it should be a list of values, and has a list in it"},
		{"rate: 5\ndata: 1.10", "", nil, "line 2: data: it should be a text, and is a number, which is read as 1.1: write it in quotes"},
		{"host: [a, 1_0]", "", nil, "line 1: host: it should be a text, and is a number, which is read as 10"},
		{"data: '1.10'\nrate: -1", "", nil, "got -1"},
		{"- rate", "", nil, "line 1: it should have flags and their values"},
		{"{", "", nil, "--config " + path},
		{strings.Repeat("# long\n", maxConfigBytes/7+1), "", nil, "more than 131072 bytes"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if t.Setenv("WFHOST_LISTEN", c.listen); c.listen == "" {
			if err := os.Unsetenv("WFHOST_LISTEN"); err != nil {
				t.Fatal(err)
			}
		}
		code, _, errs := command(append([]string{"serve", "--config", path}, c.args...)...)
		if code == exitOK || !strings.Contains(errs, c.want) || strings.Contains(errs, secret) {
			t.Errorf("%.60q %v: %d %s, want %q", c.text, c.args, code, errs, c.want)
		}
	}
	if code, _, errs := command("serve", "--config", filepath.Join(dir, "none.yaml")); code != exitUsage || !strings.Contains(errs, "none.yaml") {
		t.Error(code, errs)
	}
}

// TestConfigCheck reports all mistakes in files by line, with a suggestion. The environment does not hide mistakes.
func TestConfigCheck(t *testing.T) {
	t.Setenv("WFHOST_LISTEN", "127.0.0.1:9")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "rate: 5\nhost: [a.example, b.example]\nno-metrics: true\ndisk-reserve: 0\ndrain: 3s\n")
	bad := write("bad.yaml", "dataa: x\nrate: -1\ndrain: soon\nhost: {a: b}\nserver: y\nmax-streams: 0\nconfig: z\nlisten: nowhere\n")
	apart := write("apart.json", `{"listen": "0.0.0.0:7777", "tls-cert": "cert.pem"}`)
	broken := write("broken.yaml", "{")

	code, out, errs := command("config", "check", good)
	if code != exitOK || out != good+": ok\n" || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	code, out, errs = command("config", "check", good, bad, apart, broken, filepath.Join(dir, "none"))
	if code != exitUsage || out != good+": ok\n" {
		t.Errorf("%d %q", code, out)
	}
	for _, want := range []string{
		bad + `: line 1: "dataa" is no flag of serve; did you mean "data"?`,
		bad + ": line 2: --rate must be from 0 to",
		bad + `: line 3: --drain: invalid duration "soon": it should look like 1h30m`,
		bad + ": line 4: host: it should be a value or a list of values, and is an object",
		bad + `: line 5: "server" is no flag of serve` + "\n",
		bad + ": line 6: --rate must be from 0 to 1e+09, --max-streams",
		bad + `: line 7: "config" is no flag of serve` + "\n",
		apart + ": --tls-cert and --tls-key belong together",
		broken + ": line 2: it is not YAML",
		"none: open ",
		"wfhost: 4 of 5 files would be refused",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%s\nwithout %q", errs, want)
		}
	}
	alone := write("alone.yaml", "listen: nowhere\n")
	if code, _, errs := command("config", "check", alone); code != exitUsage || !strings.Contains(errs, `got "nowhere"`) {
		t.Error(code, errs)
	}
}

// TestConfigShow shows each flag with its value and the origin of the value. The command line takes precedence over
// the environment, the environment over the file, and the file over the defaults. Invalid environment variables are
// refused by name, but ignored when a file is checked.
func TestEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("drain: 5s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WFHOST_RATE", "-5")
	if code, _, errs := command("config", "check", path); code != exitOK {
		t.Error(code, errs)
	}
	if code, _, errs := command("config", "show"); code != exitUsage || !strings.Contains(errs, "--rate must be") {
		t.Error(code, errs)
	}
	t.Setenv("WFHOST_RATE", "many")
	if code, _, errs := command("config", "show"); code != exitUsage || !strings.Contains(errs, "WFHOST_RATE") {
		t.Error(code, errs)
	}
}

func TestConfigShow(t *testing.T) {
	t.Setenv("WFHOST_LISTEN", "127.0.0.1:9")
	t.Setenv("WFHOST_MAX_CONNECTIONS", "77")
	t.Setenv("WFHOST_NO_PAGE", "true")
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:8\nmax-connections: 5\ndrain: 5s\nrate: 7\nhost: [a.example, b.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command("config", "show", "--format", "json", "--config", path, "--drain=3s")
	if code != exitOK {
		t.Fatal(code, errs)
	}
	var list []setting
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]setting{}
	for _, s := range list {
		got[s.Name] = s
	}
	for _, want := range []setting{{"listen", "127.0.0.1:9", "environment"}, {"drain", "3s", "flag"}, {"rate", "7", "file"},
		{"host", "a.example b.example", "file"}, {"max-streams", "1000", "default"},
		{"max-connections", "77", "environment"}, {"no-page", "true", "environment"}, {"disk-reserve", "", "default"}, {"config", path, "flag"}} {
		if got[want.Name] != want {
			t.Errorf("got %v, want %v", got[want.Name], want)
		}
	}
	if code, _, errs := command("config", "show", "--max-streams", "0"); code != exitUsage || !strings.Contains(errs, "--max-streams") {
		t.Error(code, errs)
	}
	if code, out, _ := command("config", "show"); code != exitOK || !strings.Contains(out, "max-streams") || strings.Contains(out, " 7  ") {
		t.Error(code, out)
	}
}
