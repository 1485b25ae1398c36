package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfig takes flags from a file, but for those that the command line and the environment have, and refuses what says nothing.
// What a flag was set to is in the sentence that refuses it.
func TestConfig(t *testing.T) {
	t.Setenv("SIGNING", strings.Repeat("s", 24))
	dir := t.TempDir()
	path := filepath.Join(dir, "wfhost.yaml")
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
		{"drain: soon", "", nil, "--drain"},
		{"rate: 1_0e1\npool-bytes: -1", "", nil, "got -1"},
		{"{}", "", []string{"--rate=-2"}, "got -2"},
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
		if code == exitOK || !strings.Contains(errs, c.want) {
			t.Errorf("%.60q %v: %d %s, want %q", c.text, c.args, code, errs, c.want)
		}
	}
	if code, _, errs := command("serve", "--config", filepath.Join(dir, "none.yaml")); code != exitUsage || !strings.Contains(errs, "none.yaml") {
		t.Error(code, errs)
	}
}
