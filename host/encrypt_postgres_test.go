package host_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestNothingInTheClearInPostgreSQL runs the workload of TestNothingInTheClear with its data in a database, with a key and without
// one, and searches the database for the payloads.
func TestNothingInTheClearInPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	outcomes := map[bool]string{}
	for _, encrypted := range []bool{false, true} {
		url := pgtest.Fresh(t)
		s, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true})
		do(t, err)
		cfg := host.Config{Store: s, CacheDir: vaultCache(t)}
		if encrypted {
			cfg.Codec = keyring(t, keyLine("k1", 1))
		}
		h, stop := vaultHostOf(t, cfg)
		workload(t, h)
		outcomes[encrypted] = workloadText(t, h)
		stop()
		do(t, s.Close())
		text := pgtest.Dump(t, url)
		if at := bytes.Index(text, []byte(marker)); encrypted && at >= 0 {
			t.Errorf("it can be read: %q", text[max(0, at-100):at+100])
		}
		for _, what := range marked {
			if !encrypted && !bytes.Contains(text, []byte(marker+what)) {
				t.Errorf("%s%s cannot be found without encryption: this test would not find it with it", marker, what[:min(len(what), 40)])
			}
			if short := what[:min(len(what), 40)]; !strings.Contains(outcomes[encrypted], marker+short) {
				t.Errorf("encrypted %v: the host does not say %s%s", encrypted, marker, short)
			}
		}
		s, err = postgres.Open(ctx, url, postgres.Options{Unsafe: true})
		do(t, err)
		if h, err := host.Open(ctx, host.Config{Store: s}); errors.Is(err, host.ErrKey) != encrypted {
			t.Errorf("encrypted %v, opened without a key: %v", encrypted, err)
		} else if err == nil {
			do(t, h.Close())
		}
		do(t, s.Close())
	}
	if outcomes[true] != outcomes[false] {
		t.Errorf("with a key, the host says\n%s, without\n%s", outcomes[true], outcomes[false])
	}
}
