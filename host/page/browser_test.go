package page

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/wfhost/wfhost/host"
)

var runsShown = flag.Int("runs", 300, "how many runs TestBrowserViews has where there are many; make page has 100,000")

// watched starts a Chromium that fails the test on exceptions, console errors and policy violations.
func watched(t *testing.T) context.Context {
	t.Helper()
	var mu sync.Mutex // guards faults
	var faults []string
	b := browser(t, chromedp.WithListener(func(event any) {
		text, _ := json.Marshal(event) // what cannot be is no fault
		if strings.Contains(string(text), "Content Security Policy") || strings.Contains(fmt.Sprintf("%T", event), "ExceptionThrown") {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, string(text))
		}
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range faults {
			t.Error(f)
		}
	})
	return b
}

// emulate sets the width and the preferred colour scheme of the browser.
func emulate(width int64, scheme string) chromedp.Action[chromedp.Void] {
	media := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
	return chromedp.Steps(chromedp.EmulateViewport(width, 800), media)
}

// look is a script that reports accessibility problems of a page, for people with low or no vision, with a keyboard,
// or on a phone.
const look = `(() => {
  const wrong = [], say = (what, el) => wrong.push(what + (el ? ": " + el.outerHTML.slice(0, 160) : ""));
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("main *")].filter((el) => el.getBoundingClientRect().right > innerWidth + 1).pop();
    say("the page is wider than the screen, " + document.documentElement.scrollWidth, wide);
  }
  for (const one of ["main", "header.top", "h1", "title"]) if (document.querySelectorAll(one).length < 1) say("there is no " + one);
  if (document.querySelectorAll("h1").length !== 1) say("there is not one h1");
  if (!document.documentElement.lang) say("no language");
  const ids = new Set();
  for (const el of document.querySelectorAll("[id]")) { if (ids.has(el.id)) say("an id twice", el); ids.add(el.id); }
  for (const el of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!el.labels?.length && !el.getAttribute("aria-label")) say("a field without a label", el);
  for (const el of document.querySelectorAll("a, button, summary"))
    if (!el.textContent.trim() && !el.getAttribute("aria-label")) say("something to click without a name", el);
  for (const el of document.querySelectorAll("[aria-describedby], [aria-labelledby]"))
    for (const id of (el.getAttribute("aria-describedby") || el.getAttribute("aria-labelledby")).split(" ")) if (!document.getElementById(id)) say("a description that is not there", el);
  for (const t of document.querySelectorAll("table"))
    if (![...t.querySelectorAll("thead th")].length || [...t.querySelectorAll("th")].some((h) => !h.scope)) say("a table without headers", t);
  for (const n of document.querySelectorAll("nav")) if (!n.getAttribute("aria-label")) say("a nav without a label", n);
  for (const s of document.querySelectorAll("svg")) if (!s.getAttribute("aria-hidden") && !s.getAttribute("aria-label")) say("a drawing without a text", s);
  if (document.querySelector("[style], style, script:not([src])") && document.querySelector("main [style]:not(svg):not(.tip), style, script:not([src])")) say("a style or a script within the page");
  // Contrast, as WCAG 2.2 has it: 4.5 for text.
  const rgb = (text) => { const n = text.match(/[\d.]+/g).map(Number); return text.startsWith("color(") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3]));
  const light = (c) => { const [r, g, b] = c.map((x) => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const seen = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const el = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || seen.has(el) || el.closest("svg, [hidden], dialog:not([open]), .sr, .skip, option, :disabled")) continue;
    seen.add(el);
    const box = el.getBoundingClientRect(), style = getComputedStyle(el);
    if (!box.width || !box.height || style.visibility === "hidden") continue;
    const layers = [];
    for (let x = el; x; x = x.parentElement) { const c = rgb(getComputedStyle(x).backgroundColor); if (c[3]) layers.push(c); if (c[3] === 1) break; }
    const ground = layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255]);
    const ink = over(rgb(style.color), ground), [hi, lo] = [light(ink), light(ground)].sort((a, b) => b - a);
    if ((hi + .05) / (lo + .05) < 4.45) say("contrast " + ((hi + .05) / (lo + .05)).toFixed(2), el);
  }
  return wrong.slice(0, 8);
})()`

// demo fills a host with runs of all kinds, schedules and limits.
func (s *site) demo() {
	s.t.Helper()
	s.upload()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	order := func(id string, input map[string]any) {
		s.t.Helper()
		_, err := s.h.Start(ctx, "order", input, host.WithRunID(id), host.WithVersion(1))
		must(err)
		s.h.Settle()
	}
	for i := range 24 {
		s.start([]string{"report", "naps"}[i%3%2], fmt.Sprintf("report-%04d", 1000+i*7), nil)
	}
	s.stuckOrder("order-42")
	s.h.Advance(3 * time.Hour)
	s.broken.Store(true)
	for i := range 3 {
		order(fmt.Sprint("order-5", i), map[string]any{"item": "lamp"})
	}
	s.h.Advance(10 * time.Minute)
	s.broken.Store(false)
	order("order-60", map[string]any{"item": "chair", "amount": 12})
	must(s.h.Retry(ctx, "order-50", 1))
	s.h.Settle()
	s.h.Advance(25 * time.Hour)
	_, err := s.h.Wake(ctx, "order-60", "cool-down")
	must(err)
	s.h.Settle()
	s.start("parent", "batch-7", nil)
	s.start("many", "import-1", 240)
	_, err = s.h.Schedules().Create(ctx, "nightly", host.ScheduleSpec{Workflow: "report", When: "0 3 * * *", Zone: "Europe/Berlin"})
	must(err)
	_, err = s.h.Schedules().Create(ctx, "hourly-report", host.ScheduleSpec{Workflow: "naps", When: "@every 1h"})
	must(err)
	_, err = s.h.Schedules().Pause(ctx, "hourly-report", "until the numbers are right")
	must(err)
	_, err = s.h.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "order", Concurrency: []string{"5 per input.item"}, Rate: []string{"100/1m"}})
	must(err)
	_, err = s.h.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "invoice", Concurrency: []string{"1"}})
	must(err)
	_, err = s.h.HandlerLimits().Set(ctx, host.HandlerLimit{Handler: "charge", Concurrency: []string{"4"}})
	must(err)
	s.broken.Store(true)
	order("order-70", map[string]any{"item": "desk"})
	_, err = s.h.Pause(ctx, "report-1014")
	must(err)
	s.h.Advance(40 * time.Second)
	s.broken.Store(false)
	for i := range 30 { // so that there is data for the last hour
		s.start("invoice", fmt.Sprint("invoice-", 700+i), i%9 != 4)
		s.h.Advance(time.Duration(20+40*(i%4)) * time.Second)
	}
}

// later creates n runs by several callers that have not begun, since these are cheap.
func (s *site) later(n int) {
	s.t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range next {
				if _, err := s.h.Start(ctx, "forever", nil, host.WithRunID(fmt.Sprintf("later-%06d", i)), host.WithStartIn(30*24*time.Hour),
					host.WithAttributes(map[string]string{"half": fmt.Sprint(i % 2)})); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// demoViews are the views of a host filled by demo, by the names of their screenshots.
var demoViews = map[string]string{"overview": "/", "runs": "/runs", "run-failed": "/runs/order-51", "run-stuck": "/runs/order-42",
	"run-waiting": "/runs/order-60", "run-sleeping": "/runs/order-50", "run-long": "/runs/import-1", "run-naps": "/runs/report-1007",
	"run-retrying": "/runs/order-70", "run-parent": "/runs/batch-7", "journal": "/runs/order-51/journal", "log": "/runs/order-51/log",
	"output": "/runs/order-60/output", "entry": "/runs/order-51/entries/3", "compare": "/runs/order-51/compare?with=order-50",
	"compare-with": "/runs/order-51/compare", "confirm": "/runs/order-51/do/retry", "signal": "/runs/order-60/do/signal?name=approve",
	"bulk": "/bulk/retry?status=failed&workflow=order", "workflows": "/workflows", "workflow": "/workflows/order",
	"migrate": "/workflows/order/versions/2/do/check", "start": "/workflows/many/start", "start-form": "/workflows/order/start", "upload": "/upload",
	"schedules": "/schedules", "schedule": "/schedules/nightly", "limits": "/limits", "hosts": "/hosts", "access": "/access", "token": "/access/tokens", "nowhere": "/nowhere"}

// TestBrowserViews opens every view of a host with no run, with one, and with many, and runs the script look on each.
func TestBrowserViews(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(s *site) map[string]string
	}{
		{"none", func(*site) map[string]string { return named(targets("")) }},
		{"one", func(s *site) map[string]string {
			s.upload()
			s.start("order", "one", map[string]any{"item": "book"})
			return named(targets("one"))
		}},
		{"many", func(s *site) map[string]string {
			s.demo()
			s.later(*runsShown)
			return demoViews
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, WithoutLogin())
			views := c.fill(s)
			b := watched(t)
			srv := httptest.NewServer(s)
			defer srv.Close()
			for _, mode := range []struct {
				width  int64
				scheme string
			}{{1280, "light"}, {390, "dark"}} {
				if err := chromedp.Do(b, emulate(mode.width, mode.scheme)); err != nil {
					t.Fatal(err)
				}
				for name, target := range views {
					if err := chromedp.Do(b, chromedp.Navigate(srv.URL+target)); err != nil {
						t.Fatal(name, err)
					}
					wrong, err := chromedp.Run(b, chromedp.Evaluate[[]string](look))
					if err != nil {
						t.Fatal(name, err)
					}
					for _, w := range wrong {
						t.Errorf("%s, %d wide, %s: %s", name, mode.width, mode.scheme, w)
					}
				}
			}
		})
	}
}

func named(list []string) map[string]string {
	m := map[string]string{}
	for _, target := range list {
		m[target] = target
	}
	return m
}

// TestBrowserTimeline zooms a timeline with keys, buttons and the mouse, and opens entries beside it.
func TestBrowserTimeline(t *testing.T) {
	b := watched(t)
	s := openSite(t)
	s.broken.Store(true)
	s.start("order", "o-1", map[string]any{"item": "book"})
	s.h.Advance(10 * time.Minute)
	srv := httptest.NewServer(s)
	defer srv.Close()
	is := func(expression string) chromedp.Action[chromedp.Void] {
		return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if _, err := chromedp.Run(wait, chromedp.Poll[bool](expression)); err != nil {
				return fmt.Errorf("%s: %w", expression, err)
			}
			return nil
		})
	}
	const svg = `document.querySelector(".tl tbody .axis svg").style`
	const cell = `document.querySelector(".tl tbody .axis").getBoundingClientRect()`
	place := func(share float64) (x, y float64) {
		at, err := chromedp.Run(b, chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => { const r = %s; return [r.left + r.width*%f, r.top + r.height/2]; })()`, cell, share)))
		if err != nil {
			t.Fatal(err)
		}
		return at[0], at[1]
	}
	do := func(what string, list ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		for i, one := range list {
			if err := chromedp.Do(b, one); err != nil {
				at, _ := chromedp.Run(b, chromedp.Evaluate[string](`location.href + " " + document.activeElement.outerHTML.slice(0, 200) + " " + document.body.innerText.slice(0, 300)`))
				t.Fatal(what, i, err, at)
			}
		}
	}
	do("open", chromedp.Navigate(srv.URL+"/runs/o-1"), chromedp.WaitVisible(".zoom"), is(svg+`.width === "100%"`))
	do("by keys", chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), is(svg+`.width === "400%"`), is(`location.hash.startsWith("#axis=0.375000-0.625000")`),
		is(`document.querySelector(".tl thead svg text").textContent === "+1min 8s"`),
		chromedp.KeyEvent(kb.ArrowRight), is(svg+`.marginLeft === "-175%"`), chromedp.Reload(), is(svg+`.width === "400%"`),
		chromedp.KeyEvent("-"), is(svg+`.width === "200%"`), chromedp.KeyEvent("0"), is(svg+`.width === "100%"`), is(`location.hash === ""`))
	do("by buttons", chromedp.Click("[data-zoom=in]"), is(svg+`.width === "200%"`), chromedp.Click("[data-zoom=all]"), is(svg+`.width === "100%"`))
	x, y := place(.25)
	x2, _ := place(.75)
	do("by mouse", chromedp.DragAndDropXY(x, y, x2, y), is(`Math.abs(parseFloat(`+svg+`.width) - 200) < 3`), is(`document.getElementById("drawer").hidden`))
	do("the instant", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y), is(`/\+\d/.test(document.getElementById("tip").textContent)`))
	do("the whole", chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)), chromedp.KeyEvent("0"), is(svg+`.width === "100%"`))
	do("close what a click has opened", chromedp.KeyEvent("\u001b"), is(`document.getElementById("drawer").hidden`))
	do("an entry", chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent("\r"), is(`!document.getElementById("drawer").hidden`), chromedp.WaitVisible("#drawer .entry"),
		is(`document.querySelector("#drawer h2").textContent.includes("charge")`),
		is(`document.querySelector("#drawer").textContent.includes("the card was declined")`), is(`!!document.querySelector("#drawer a[download]")`))
	if *shots != "" {
		s.shoot(b, "entry-beside")
	}
	do("the next one", chromedp.KeyEvent("j"), is(`document.querySelector("#drawer h2").textContent.includes("failed")`),
		chromedp.KeyEvent("\u001b"), is(`document.getElementById("drawer").hidden`), is(`document.activeElement.matches("[data-entry]")`))
	if path, err := chromedp.Run(b, chromedp.Evaluate[string]("location.pathname")); err != nil || path != "/runs/o-1" {
		t.Error(path, err)
	}
}

// TestBrowserLongRun opens a run of 10,000 entries, or of 1,000 if -runs is less than that, and logs the time until
// the browser has laid it out.
func TestBrowserLongRun(t *testing.T) {
	b := watched(t)
	s := openSite(t)
	steps := many
	if *runsShown < many {
		steps = many / 10
	}
	s.start("many", "long", steps)
	srv := httptest.NewServer(s)
	defer srv.Close()
	if err := chromedp.Do(b, emulate(1280, "light"), chromedp.Navigate(srv.URL+"/runs/long"), chromedp.WaitVisible(".tl .r-open")); err != nil {
		t.Fatal(err)
	}
	took, err := chromedp.Run(b, chromedp.Evaluate[float64](`performance.getEntriesByType("navigation")[0].loadEventEnd`))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := chromedp.Run(b, chromedp.Evaluate[int](`document.querySelectorAll(".tl tbody tr").length`))
	if err != nil || rows > pageRows*3/2 {
		t.Error(rows, err)
	}
	t.Logf("%d entries: loaded in %.0f ms, %d rows of them shown", 2*steps, took, rows)
}
