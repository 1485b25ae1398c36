package page

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var shots = flag.String("shots", "", "folder into which screenshots of all views are written")

// browser starts a Chromium, or skips the test if there is none, and returns a context for it.
func browser(t *testing.T, opened ...chromedp.ContextOption) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium on this machine: install one (apt-get install chromium) to walk through the page")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.Flag("hide-scrollbars", true))
	for n := 1; ; n++ {
		alloc, cancel := chromedp.NewExecAllocator(ctx, opts...)
		t.Cleanup(cancel)
		b, cancel := chromedp.NewContext(alloc, opened...)
		t.Cleanup(cancel)
		err := chromedp.Do(b) // the browser lives as long as the context of the first call
		if err == nil {
			b, cancel = context.WithTimeout(b, 2*time.Minute)
			t.Cleanup(cancel)
			return b
		}
		if n == 3 { // on a busy machine, Chromium now and then ends as soon as it has begun
			t.Fatal(err)
		}
	}
}

// stuckOrder makes a run that is stuck: it has failed, and was retried under code that does something else than its journal has.
func (s *site) stuckOrder(id string) {
	s.t.Helper()
	if _, err := s.h.Upload(ctx, "order", hosttest.Build(s.t, "testdata/changed")); err != nil {
		s.t.Fatal(err)
	}
	s.broken.Store(true)
	if _, err := s.h.Start(ctx, "order", map[string]any{"item": "book"}, host.WithRunID(id), host.WithVersion(1)); err != nil {
		s.t.Fatal(err)
	}
	s.h.Settle()
	s.h.Advance(10 * time.Minute)
	if err := s.h.Retry(ctx, id, 2); err != nil {
		s.t.Fatal(err)
	}
	s.h.Settle()
	s.broken.Store(false)
	if r, err := s.h.Get(ctx, id); err != nil || r.Status != host.Stuck {
		s.t.Fatalf("%+v %v", r, err)
	}
}

type steps []chromedp.Action[chromedp.Void]

// TestWalk logs in, finds a stuck run from the overview, and brings it to its end, by what the page shows alone.
func TestWalk(t *testing.T) {
	var mu sync.Mutex
	var faults []string
	b := browser(t, chromedp.WithListener(func(event any) {
		text, _ := json.Marshal(event) // what cannot be is no fault
		if strings.Contains(string(text), "Content Security Policy") || strings.Contains(fmt.Sprintf("%T", event), "ExceptionThrown") {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, string(text))
		}
	}))
	s := newSite(t)
	s.upload()
	s.stuckOrder("order-42")
	text, _, err := s.h.CreateToken(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	see := func(text string) chromedp.Action[chromedp.Void] {
		return chromedp.WaitVisible(fmt.Sprintf(`//main//*[contains(normalize-space(.), %q)]`, text))
	}
	link := func(text string) chromedp.Action[chromedp.Void] {
		return chromedp.Click(fmt.Sprintf(`//main//a[normalize-space(.)=%q]`, text))
	}
	button := func(text string) chromedp.Action[chromedp.Void] {
		return chromedp.Click(fmt.Sprintf(`//main//button[normalize-space(.)=%q]`, text))
	}
	for _, step := range []struct {
		what string
		do   steps
	}{
		{"log in", steps{chromedp.Navigate(srv.URL), chromedp.SendKeys("#token", text), button("Log in"), see("Stuck")}},
		{"open the stuck run", steps{link("order-42"), see("Stuck: it needs a person."), see("replay differs")}},
		{"retry under the first version", steps{link("Retry"), see("The failures that led to the end"),
			chromedp.SendKeys("#f-version", "1"), button("Retry"), see(`Sleeps in`)}},
		{"wake it", steps{link("Wake cool-down"), button("Wake"), see(`Waits for the signal`)}},
		{"signal it", steps{link("Signal approve"), chromedp.SendKeys("#f-payload", `{"by":"Ada"}`), button("Signal"),
			see("Completed after"), see("approved by Ada")}},
		{"by the keys to the list", steps{chromedp.KeyEvent("g"), chromedp.KeyEvent("r"), see("order-42"), chromedp.KeyEvent("j"),
			chromedp.KeyEvent("\r"), see("Completed after"), chromedp.KeyEvent("?"), chromedp.WaitVisible("#help")}},
	} {
		if err := chromedp.Do(b, step.do...); err != nil {
			s, cancel := context.WithTimeout(context.WithoutCancel(b), 5*time.Second)
			defer cancel()
			body, _ := chromedp.Run(s, chromedp.Text("body"))
			t.Fatalf("%s: %v\n%s", step.what, err, body)
		}
	}
	if r, err := s.h.Get(ctx, "order-42"); err != nil || r.Status != host.Completed {
		t.Error(r.Status, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, f := range faults {
		t.Error(f)
	}
}

// TestShots writes screenshots of the views, in light, in dark, and as wide as a phone: go test -run TestShots -shots FOLDER.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("-shots names no folder")
	}
	b := browser(t)
	s := newSite(t, WithoutLogin())
	s.upload()
	for i := range 24 {
		s.start([]string{"forever", "naps", "parent"}[i%3%2], fmt.Sprintf("report-%04d", 1000+i*7), nil)
	}
	s.stuckOrder("order-42")
	s.h.Advance(3 * time.Hour)
	s.broken.Store(true)
	for i := range 3 {
		if _, err := s.h.Start(ctx, "order", map[string]any{"item": "lamp"}, host.WithRunID(fmt.Sprint("order-5", i)), host.WithVersion(1)); err != nil {
			t.Fatal(err)
		}
	}
	s.h.Settle()
	s.h.Advance(10 * time.Minute)
	s.broken.Store(false)
	opt := host.WithVersion(1)
	_, _ = s.h.Start(ctx, "order", map[string]any{"item": "chair", "amount": 12}, host.WithRunID("order-60"), opt)
	s.h.Settle()
	_ = s.h.Retry(ctx, "order-50", 1)
	s.h.Settle()
	s.h.Advance(25 * time.Hour)
	_, _ = s.h.Wake(ctx, "order-60", "cool-down")
	s.h.Settle()
	s.start("parent", "batch-7", nil)
	s.start("many", "import-1", 240)
	_, _ = s.h.CreateSchedule(ctx, "nightly", host.ScheduleSpec{Workflow: "forever", When: "0 3 * * *", Zone: "Europe/Berlin"})
	_, _ = s.h.SetLimits(ctx, host.Limits{Workflow: "order", Concurrency: []string{"5 per input.item"}, Rate: []string{"100/1m"}})
	s.h.Advance(17 * time.Minute)
	srv := httptest.NewServer(s)
	defer srv.Close()
	views := map[string]string{"overview": "/", "runs": "/runs", "run-failed": "/runs/order-51", "run-stuck": "/runs/order-42", "run-waiting": "/runs/order-60",
		"run-sleeping": "/runs/order-50", "run-long": "/runs/import-1", "run-naps": "/runs/report-1007", "journal": "/runs/order-51/journal",
		"log": "/runs/order-51/log", "entry": "/runs/order-51/entries/0", "confirm": "/runs/order-51/do/retry", "signal": "/runs/order-60/do/signal?name=approve",
		"workflows": "/workflows", "workflow": "/workflows/order", "start": "/workflows/many/start", "start-form": "/workflows/hostile/start", "upload": "/upload",
		"schedules": "/schedules", "schedule": "/schedules/nightly", "limits": "/limits", "nowhere": "/nowhere"}
	for name, target := range views {
		for mode, width := range map[string]int64{"light": 1280, "dark": 1280, "phone": 390} {
			scheme := map[bool]string{true: "dark", false: "light"}[mode == "dark"]
			media := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return err
			})
			if err := chromedp.Do(b, chromedp.EmulateViewport(width, 800), media, chromedp.Navigate(srv.URL+target)); err != nil {
				t.Fatal(name, err)
			}
			png, err := chromedp.Run(b, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(name, err)
			}
			if err := os.WriteFile(filepath.Join(*shots, name+"-"+mode+".png"), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
