package page

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var (
	shots   = flag.String("shots", "", "folder into which TestShots writes screenshots of all views, and TestWalk those of its steps")
	shotsOf = flag.String("views", "", "regular expression of the views of -shots; empty for all")
)

// browserTime limits the use of the browser by a test. It is long, since other tests may keep the processors busy.
const browserTime = 10 * time.Minute

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
			b, cancel = context.WithTimeout(b, browserTime)
			t.Cleanup(cancel)
			return b
		}
		if n == 3 { // on a busy machine, Chromium sometimes exits right after its start
			t.Fatal(err)
		}
	}
}

// stuckOrder makes a stuck run: it failed, and was retried under code that does not match its journal.
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

// TestWalk logs in, finds a stuck run from the overview, and resolves it, using only what the page shows.
func TestWalk(t *testing.T) {
	b := watched(t)
	s := newSite(t)
	s.upload()
	s.stuckOrder("order-42")
	text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
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
	if err := chromedp.Do(b, emulate(1040, "light")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		shot string // the picture of what is seen then
		do   steps
	}{
		{"log in", "walk-1-overview", steps{chromedp.Navigate(srv.URL), chromedp.SendKeys("#token", text), button("Log in"), see("Stuck")}},
		{"open the stuck run", "walk-2-stuck", steps{link("order-42"), see("Stuck: it needs a person."), see("replay differs")}},
		{"retry under the first version", "walk-3-retry", steps{link("Retry"), see("The failures that led to the end"),
			see("Does what the run has done so far"), chromedp.WaitVisible(`//input[@id="f-version" and @value="1"]`)}},
		{"confirm", "walk-4-sleeping", steps{button("Retry"), see(`Sleeps in`),
			chromedp.WaitVisible(`//main//*[contains(@class, "st-sleeping")]`)}},
		{"wake it", "", steps{link("Wake cool-down"), button("Wake"), see(`Waits for the signal`)}},
		{"signal it", "walk-5-completed", steps{link("Signal approve"), chromedp.SendKeys("#f-payload", `{"by":"Ada"}`), button("Signal"),
			see("Completed after"), see("approved by Ada")}},
		{"by the keys to the list", "", steps{chromedp.KeyEvent("g"), chromedp.KeyEvent("r"), see("order-42"), chromedp.KeyEvent("j"),
			chromedp.KeyEvent("\r"), see("Completed after"), chromedp.KeyEvent("?"), chromedp.WaitVisible("#help")}},
	} {
		if err := chromedp.Do(b, step.do...); err != nil {
			s, cancel := context.WithTimeout(context.WithoutCancel(b), 5*time.Second)
			defer cancel()
			body, _ := chromedp.Run(s, chromedp.Text("body"))
			t.Fatalf("%s: %v\n%s", step.what, err, body)
		}
		if *shots != "" && step.shot != "" {
			s.shoot(b, step.shot)
		}
	}
	if r, err := s.h.Get(ctx, "order-42"); err != nil || r.Status != host.Completed {
		t.Error(r.Status, err)
	}
}

// TestShots saves screenshots of the views: light, dark, and at the width of a phone: go test -run TestShots -shots
// FOLDER.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("-shots names no folder")
	}
	b := browser(t)
	s := newSite(t, WithoutLogin())
	s.demo()
	srv := httptest.NewServer(s)
	defer srv.Close()
	for name, target := range demoViews {
		if *shotsOf != "" && !regexp.MustCompile(*shotsOf).MatchString(name) {
			continue
		}
		for mode, width := range map[string]int64{"light": 1280, "dark": 1280, "phone": 390} {
			scheme := map[bool]string{true: "dark", false: "light"}[mode == "dark"]
			if err := chromedp.Do(b, emulate(width, scheme), chromedp.Navigate(srv.URL+target)); err != nil {
				t.Fatal(name, err)
			}
			s.shoot(b, name+"-"+mode)
		}
	}
}

// shoot saves a screenshot with 256 colours: a page has hardly more, and the file is a third as large.
func (s *site) shoot(b context.Context, name string) {
	s.t.Helper()
	b1, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	if err != nil {
		s.t.Fatal(name, err)
	}
	img, err := png.Decode(bytes.NewReader(b1))
	if err != nil {
		s.t.Fatal(name, err)
	}
	counts := map[color.RGBA]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			counts[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var palette color.Palette
	for _, c := range most[:min(len(most), 256)] {
		palette = append(palette, c)
	}
	small, nearest := image.NewPaletted(img.Bounds(), palette), map[color.RGBA]uint8{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	f, err := os.Create(filepath.Join(*shots, name+".png"))
	if err != nil {
		s.t.Fatal(err)
	}
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := errors.Join(enc.Encode(f, small), f.Close()); err != nil {
		s.t.Fatal(name, err)
	}
}
