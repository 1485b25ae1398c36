package typescript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// sleepTexts returns texts that are, or resemble, durations and instants.
func sleepTexts() []string {
	texts := []string{
		"", "5", "5s", "1.5h", "1h30m", "30m1h", "1h1h", "1.5h1s", ".5s", "5.s", "5 s", "-5s", "0s", "0.5ms", "0.4ms", "1.0005s", "3w1d", "1y",
		"PT5M", "P1W", "P1DT12H", "P", "PT", "P1DT", "P1.5D", "P1.5DT1H", "PT1M1H", "PT1H1.5M", "P1M", "PT1.5S", "P1W2DT3H4M5.678S", "pt5m",
		"292277025y", "253402300799999ms", "253402300800000ms", "99999999999999999999s", strings.Repeat("1s", 32), strings.Repeat("1s", 33),
		"2030-01-31T09:00:00Z", "2030-01-31T10:00:00.5+01:00", "2030-01-31", "2030-01-31T09:00", "2030-01-31T09:00:00", "2030-01-31 09:00:00Z",
		"2030-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2030-04-31T00:00:00Z", "2030-13-01T00:00:00Z", "2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z",
		"2030-01-31T24:00:00Z", "2030-01-31T23:59:60Z", "2030-01-31T23:60:00Z", "2030-01-31T9:00:00Z", "2030-01-31t09:00:00z", "2030-01-31T09:00:00,5Z",
		"2030-01-31T09:00:00.0005Z", "2030-01-31T09:00:00.9999999999999Z", "2030-01-31T09:00:00.Z", "2030-01-31T09:00:00+23:59", "2030-01-31T09:00:00+24:00",
		"2030-01-31T09:00:00-24:60", "2030-01-31T09:00:00+25:00", "2030-01-31T09:00:00+00:61", "2030-01-31T09:00:00+0100", "9999-12-31T23:59:59.999Z",
		"9999-12-31T23:59:59.9991Z", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59.5Z", "20300-01-31T09:00:00Z", "31-01-2030",
		"+002030-01-31T09:00:00Z", "2030-01-31T09:00:00.123456789012345678901234567890123456789012345Z", "Jan 31 2030", "2030-W05-4T09:00:00Z",
	}
	const letters = "0123456789-+:.,TZPWDHMSwdhms "
	rng := rand.New(rand.NewPCG(1, 2))
	for _, text := range texts[:len(texts):len(texts)] {
		for range 20 {
			if at, b := rng.IntN(len(text)+1), letters[rng.IntN(len(letters))]; at == len(text) || rng.IntN(2) == 0 {
				texts = append(texts, text[:at]+string(b)+text[at:])
			} else {
				texts = append(texts, text[:at]+string(b)+text[at+1:])
			}
		}
	}
	return texts
}

// TestSleepTexts compares how the environment for unit tests, a host, and the SDK parse durations and instants.
func TestSleepTexts(t *testing.T) {
	node := findNode(t, "the texts of sleeps were not compared")
	texts := sleepTexts()
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
		import { readFileSync } from "node:fs";
		import { milliseconds } from "../guest-sdk/js/src/duration.js";
		import { sleep } from "../guest-sdk/js/src/index.js";
		import { Env } from "../guest-sdk/js/src/testing.js";
		const out = [];
		for (const text of JSON.parse(readFileSync(0, "utf8"))) {
			const env = new Env(), got = { ms: -1, now: 0, code: "" };
			await env.run(() => sleep(text)).catch((e) => (got.code = e.code));
			got.now = env.now.getTime();
			try {
				got.ms = milliseconds(text);
			} catch {
				// it is none
			}
			out.push(got);
		}
		console.log(JSON.stringify(out));`)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	var got []struct {
		Ms, Now int64
		Code    string
	}
	if err := errors.Join(err, json.Unmarshal(out, &got)); err != nil || len(got) != len(texts) {
		t.Fatalf("%v\n%s", err, out)
	}
	now := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC).UnixMilli() // as in the environment
	for i, text := range texts {
		end, err := abi.ParseSleepText(text, now)
		code := ""
		if e, ok := errors.AsType[*abi.Error](err); ok {
			end, code = now, e.Code.String()
		}
		end = max(end, now)
		if got[i].Now != end || got[i].Code != code {
			t.Errorf("sleep(%q) ends at %d with the code %q; on a host at %d with %q", text, got[i].Now, got[i].Code, end, code)
		}
		ms, err := abi.ParseDuration(text)
		if err != nil {
			ms = -1
		}
		if got[i].Ms != ms {
			t.Errorf("the SDK reads %q as %d ms, a host as %d", text, got[i].Ms, ms)
		}
	}
}

// TestTimeoutTexts has the engine parse texts that the host accepts as numbers.
func TestTimeoutTexts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"waits.ts": `import { signal } from "@wfhost/workflow";
		export default async function waits() {
			const start = Date.now(), took: unknown[] = [];
			for (const timeout of ["PT1.5S", "1.0005s", "1m1h", "P1DT", "1.5h1s"]) {
				try {
					await signal("none", { timeout });
					took.push(Date.now() - start);
				} catch (e) {
					took.push((e as Error).name);
				}
			}
			return took;
		}`})
	p := loadFrom(t, filepath.Join(dir, "waits.ts"))
	p.begin("waits", "r", nil)
	if got := p.ends("r"); got != `[1500,2501,3662501,"RangeError","RangeError"]` {
		t.Error(got)
	}
}
