// The page works without this file. It counts down, loads what changes again, and takes keys.
"use strict";

(() => {
  const home = document.body.dataset;
  const ahead = Number(home.now) - Date.now(); // how far the server's clock is before this one
  const now = () => Date.now() + ahead;

  // Times. The server writes them, too, so that they are there without scripts.
  const units = [["y", 31536e6], ["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]];
  function humane(ms) {
    if (ms < 1e3) return Math.floor(ms) + "ms";
    if (ms < 1e4) return (Math.floor(ms / 100) / 10) + "s";
    for (let i = 0; i < units.length; i++) {
      const [unit, size] = units[i];
      if (ms < size) continue;
      const n = Math.floor(ms / size);
      if (i + 1 === units.length) return n + unit;
      const [small, least] = units[i + 1];
      const rest = Math.floor((ms % size) / least);
      return n + unit + (rest ? " " + rest + small : "");
    }
    return "";
  }
  const local = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });
  function tick() {
    const t = now();
    for (const el of document.querySelectorAll("time[data-ago], time[data-until], time[data-since], time[data-at]")) {
      const d = el.dataset;
      let text = el.textContent;
      if (d.since) text = humane(Math.max(0, t - Number(d.since)));
      else if (d.at) {
        if (el.title) continue;
        el.title = text;
        text = local.format(Number(d.at));
      } else {
        const left = Number(d.ago || d.until) - t;
        if (left > 0) text = "in " + humane(left);
        else if (left > -1e3) text = "now";
        else text = humane(-left) + (d.until ? " overdue" : " ago");
        if (d.until) el.classList.toggle("overdue", left < -5e3);
      }
      if (el.textContent !== text) el.textContent = text;
    }
  }
  tick();
  setInterval(tick, 1000);
  document.addEventListener("shown", tick);

  // What changes is loaded again as the page it is in, and replaced where it differs.
  const pulse = document.getElementById("pulse");
  let paused = false, busy = false, misses = 0;
  function say(text, bad) {
    if (pulse.textContent !== text) pulse.textContent = text;
    pulse.classList.toggle("bad", !!bad);
  }
  let shown = null; // the text of the region as the server sent it
  async function refresh() {
    const live = document.getElementById("live");
    if (!live || paused || busy || document.hidden || live.contains(document.getSelection()?.anchorNode) && !document.getSelection().isCollapsed) return;
    busy = true;
    try {
      const r = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
      if (r.redirected && new URL(r.url).pathname.endsWith("/login")) { location.reload(); return; }
      if (!r.ok) throw new Error(String(r.status));
      const next = new DOMParser().parseFromString(await r.text(), "text/html").getElementById("live");
      if (!next) throw new Error("the page is another one");
      // Texts of moments change with each answer, and are counted here: they are no change.
      const text = next.innerHTML.replace(/<time [^>]*data-(ago|until|since)="(\d+)"[^>]*>[^<]*<\/time>/g, "$1$2").replace(/ (x|x1|x2|width)="[\d.]+%"| data-axis="[^"]*"/g, "");
      const still = text === shown;
      shown = text;
      if (!still) replace(live, next);
      else { // only what grows with time
        const grown = next.querySelectorAll("svg");
        live.querySelectorAll("svg").forEach((svg, i) => svg.replaceChildren(...grown[i].childNodes));
        const axis = next.querySelector("[data-axis]"), old = live.querySelector("[data-axis]");
        if (axis && old) old.dataset.axis = axis.dataset.axis;
      }
      misses = 0;
      say("live");
      tick();
      document.dispatchEvent(new Event("refreshed"));
    } catch (e) {
      misses++;
      say("not refreshed: the server does not answer", true);
    } finally {
      busy = false;
    }
  }
  function replace(live, next) {
    const opened = [...live.querySelectorAll("details[id]")].map((d) => [d.id, d.open]);
    const at = [...live.querySelectorAll("[data-row]")].findIndex((r) => r.classList.contains("at"));
    const focused = live.contains(document.activeElement) ? path(document.activeElement, live) : null;
    live.replaceChildren(...document.adoptNode(next).childNodes);
    for (const [id, open] of opened) { const d = document.getElementById(id); if (d) d.open = open; }
    if (at >= 0) live.querySelectorAll("[data-row]")[at]?.classList.add("at");
    if (focused) focused.reduce((el, i) => el?.children[i], live)?.focus({ preventScroll: true });
  }
  function path(el, top) {
    const list = [];
    for (; el && el !== top; el = el.parentElement) list.unshift([...el.parentElement.children].indexOf(el));
    return list;
  }
  const live = document.getElementById("live");
  if (live) {
    const every = Math.max(1, Number(live.dataset.live)) * 1000;
    const again = () => setTimeout(() => refresh().then(again), every * Math.min(8, 1 + misses));
    again();
    say("live");
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  }

  // Copying.
  document.addEventListener("click", async (e) => {
    const b = e.target.closest("[data-copy]");
    if (!b) return;
    const text = b.dataset.copy || b.closest(".payload").querySelector("pre").textContent;
    const label = b.textContent;
    try { await navigator.clipboard.writeText(text); b.textContent = "Copied"; } catch { b.textContent = "Not allowed"; }
    setTimeout(() => { b.textContent = label; }, 1500);
  });

  // Filters are sent as they are chosen, without the fields that say nothing.
  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (e) => { if (e.target.matches("select, [type=checkbox]")) form.requestSubmit(); });
    form.addEventListener("submit", () => {
      for (const el of form.elements) if (el.name && !el.value) el.disabled = true;
    });
  }

  // Files are dropped.
  for (const drop of document.querySelectorAll("[data-drop]")) {
    const input = drop.querySelector("input[type=file]");
    const name = drop.querySelector("[data-name]");
    const show = () => { const f = input.files[0]; name.textContent = f ? f.name + ", " + Math.ceil(f.size / 1024).toLocaleString("en") + " KiB" : ""; };
    input.addEventListener("change", show);
    for (const type of ["dragenter", "dragover"]) drop.addEventListener(type, (e) => { e.preventDefault(); drop.classList.add("over"); });
    for (const type of ["dragleave", "drop"]) drop.addEventListener(type, () => drop.classList.remove("over"));
    drop.addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files.length) { input.files = e.dataTransfer.files; show(); } });
  }

  // Keys.
  const help = document.getElementById("help");
  const rows = () => [...document.querySelectorAll("[data-row]")];
  function move(by) {
    const list = rows();
    if (!list.length) return;
    const at = list.findIndex((r) => r.classList.contains("at"));
    const to = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by))];
    list[at]?.classList.remove("at");
    to.classList.add("at");
    to.scrollIntoView({ block: "nearest" });
    to.querySelector("a")?.focus({ preventScroll: true });
  }
  function tab(by) {
    const list = [...document.querySelectorAll(".tabs a")];
    const at = list.findIndex((a) => a.getAttribute("aria-current"));
    if (at >= 0) list[at + by]?.click();
  }
  function up() {
    const at = document.querySelector(".tabs a[aria-current]");
    if (document.querySelector(".entry")) document.querySelector(".tabs a")?.click();
    else location.href = at || document.querySelector(".head .st") ? home.runs : home.home;
  }
  let going = 0;
  document.addEventListener("keydown", (e) => {
    const typing = e.target.matches("input, textarea, select");
    if (e.key === "Escape" && typing) { e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || typing || help.open) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const to = { o: home.home, r: home.runs, w: home.workflows, s: home.schedules }[e.key];
      if (to) { location.href = to; return; }
    }
    switch (e.key) {
      case "/": document.getElementById("find")?.focus(); break;
      case "?": help.showModal(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "[": tab(-1); break;
      case "]": tab(1); break;
      case "u": up(); break;
      case "g": going = Date.now(); break;
      case "p": if (live) { paused = !paused; say(paused ? "refresh stopped" : "live"); if (!paused) refresh(); } break;
      default: return;
    }
    e.preventDefault();
  });
})();
