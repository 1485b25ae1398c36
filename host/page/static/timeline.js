// The timeline of a run: zoom, what is below the pointer, and entries beside it. The page works without this file.
"use strict";

(() => {
  const table = () => document.querySelector(".tl[data-axis]");
  if (!table()) return;
  const tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";
  const least = 1 / 4096; // of the axis
  let from = 0, to = 1; // what is shown of it
  const kept = /^#axis=([\d.]+)-([\d.]+)$/.exec(location.hash);
  if (kept && +kept[1] >= 0 && +kept[2] <= 1 && kept[2] - kept[1] >= least) { from = +kept[1]; to = +kept[2]; }

  // The axis is even between its knots: pairs of a place from 0 to 1 and an instant.
  function knots() {
    const list = table().dataset.axis.split(" ").map(Number);
    const pairs = [];
    for (let i = 0; i + 1 < list.length; i += 2) pairs.push([list[i], list[i + 1]]);
    return pairs;
  }
  // instant returns the instant at a place, and the length of time that a share of the axis has there.
  function instant(place) {
    const k = knots();
    for (let i = 1; i < k.length; i++) {
      const [p, t] = k[i - 1], [q, u] = k[i];
      if (place <= q) return t + (u - t) * (place - p) / Math.max(q - p, 1e-9);
    }
    return null; // what is still to come
  }
  function span(ms) {
    if (ms < 1000) return Math.round(ms) + "ms";
    if (ms < 60e3) return (ms / 1000).toFixed(ms < 10e3 ? 2 : 1).replace(/\.?0+$/, "") + "s";
    const s = Math.round(ms / 1000), d = Math.floor(s / 86400), h = Math.floor(s % 86400 / 3600), m = Math.floor(s % 3600 / 60);
    const parts = [[d, "d"], [h, "h"], [m, "min"], [s % 60, "s"]].filter(([n]) => n);
    return parts.slice(0, 2).map(([n, unit]) => n + unit).join(" ");
  }

  // draw shows the part of the axis that is chosen.
  function draw() {
    const t = table();
    if (!t) return;
    const zoomed = to - from < 1;
    t.classList.toggle("zoomed", zoomed);
    for (const svg of t.querySelectorAll("tbody .axis svg")) {
      svg.style.width = 100 / (to - from) + "%";
      svg.style.marginLeft = -100 * from / (to - from) + "%";
    }
    const head = t.querySelector("thead .axis svg");
    if (zoomed) labels(head);
    else if (head.dataset.own) { head.replaceChildren(...head.kept); delete head.dataset.own; }
    const bar = document.querySelector(".zoom");
    bar.hidden = false;
    bar.querySelector("[data-zoom=out]").disabled = bar.querySelector("[data-zoom=all]").disabled = !zoomed;
    bar.querySelector("[data-zoom=in]").disabled = to - from <= least;
    const url = zoomed ? "#axis=" + from.toFixed(6) + "-" + to.toFixed(6) : location.pathname + location.search;
    if (zoomed ? location.hash !== url : location.hash) history.replaceState(null, "", url);
  }
  // labels writes instants of the part that is shown, counted from the beginning of the axis.
  function labels(head) {
    if (!head.dataset.own) { head.kept = [...head.childNodes]; head.dataset.own = "1"; }
    const first = knots()[0][1], n = head.clientWidth > 500 ? 5 : 3, list = [];
    for (let i = 0; i <= n; i++) {
      const at = instant(from + (to - from) * i / n);
      if (at === null) continue;
      const text = document.createElementNS(SVG, "text");
      text.setAttribute("x", 100 * i / n + "%");
      text.setAttribute("y", "12");
      text.setAttribute("text-anchor", i === 0 ? "start" : i === n ? "end" : "middle");
      text.textContent = "+" + span(at - first);
      list.push(text);
    }
    head.replaceChildren(...list);
  }
  function zoom(a, b) {
    const w = Math.min(1, Math.max(least, b - a));
    from = Math.min(Math.max(0, a), 1 - w);
    to = from + w;
    draw();
  }
  function by(factor, around = (from + to) / 2) { zoom(around - (around - from) * factor, around + (to - around) * factor); }
  function move(share) { zoom(from + share * (to - from), to + share * (to - from)); }

  document.addEventListener("click", (e) => {
    const b = e.target.closest("[data-zoom]");
    if (b) ({ in: () => by(.5), out: () => by(2), all: () => zoom(0, 1) })[b.dataset.zoom]();
  });
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
    if (e.key === "Escape" && (asked || !drawer.hidden)) { close(); e.preventDefault(); return; }
    const zoomed = to - from < 1;
    switch (e.key) {
      case "+": case "=": by(.5); break;
      case "-": by(2); break;
      case "0": zoom(0, 1); break;
      case "ArrowLeft": if (!zoomed) return; move(-.25); break;
      case "ArrowRight": if (!zoomed) return; move(.25); break;
      default: return;
    }
    e.preventDefault();
  });

  // With the mouse: a part is chosen by drawing over it, a double click shows the whole, and Ctrl with the wheel zooms.
  const axisOf = (e) => e.target.closest?.(".tl .axis");
  function placeOf(cell, x) {
    const r = cell.getBoundingClientRect();
    return from + (to - from) * Math.min(1, Math.max(0, (x - r.left) / r.width));
  }
  let drag = null;
  document.addEventListener("pointerdown", (e) => {
    const cell = axisOf(e);
    if (cell && e.button === 0 && e.pointerType === "mouse") drag = { cell, x: e.clientX, marked: null };
  });
  document.addEventListener("pointermove", (e) => {
    hover(e);
    if (!drag || Math.abs(e.clientX - drag.x) < 4) return;
    if (!drag.marked) {
      drag.marked = document.createElement("div");
      drag.marked.className = "marked";
      drag.cell.append(drag.marked);
    }
    e.preventDefault();
    document.getSelection()?.removeAllRanges();
    const r = drag.cell.getBoundingClientRect(), a = Math.max(r.left, Math.min(drag.x, e.clientX)), b = Math.min(r.right, Math.max(drag.x, e.clientX));
    drag.marked.style.left = a - r.left + "px";
    drag.marked.style.width = Math.max(0, b - a) + "px";
  });
  let dragged = false; // the click that ends the drawing of a part opens nothing
  document.addEventListener("pointerup", (e) => {
    if (drag?.marked) {
      const a = placeOf(drag.cell, drag.x), b = placeOf(drag.cell, e.clientX);
      drag.marked.remove();
      dragged = true;
      setTimeout(() => { dragged = false; });
      zoom(Math.min(a, b), Math.max(a, b));
    }
    drag = null;
  });
  document.addEventListener("dblclick", (e) => { if (axisOf(e)) { zoom(0, 1); document.getSelection()?.removeAllRanges(); } });
  document.addEventListener("wheel", (e) => {
    const cell = axisOf(e);
    if (!cell || !e.ctrlKey) return;
    e.preventDefault();
    by(e.deltaY > 0 ? 1.25 : .8, placeOf(cell, e.clientX));
  }, { passive: false });

  // What is below the pointer: the instant, and the bar.
  function hover(e) {
    const cell = axisOf(e), at = cell && instant(placeOf(cell, e.clientX));
    if (!cell || at === null && !e.target.closest("rect")) { tip.hidden = true; return; }
    const bar = e.target.closest("rect:not(.fold)"), title = bar?.querySelector("title");
    if (title) { bar.dataset.tip = title.textContent; title.remove(); } // which the browser would show beside it
    const row = cell.closest("tr")?.querySelector("[data-entry]")?.textContent;
    const lines = [];
    if (bar && row) lines.push(row + (bar.dataset.tip ? ": " + bar.dataset.tip.trim() : ""));
    if (at !== null) lines.push(new Date(at).toLocaleString("sv") + "." + String(Math.round(at) % 1000).padStart(3, "0") + "  +" + span(at - knots()[0][1]));
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const w = tip.offsetWidth;
    tip.style.left = Math.min(e.clientX + 12, innerWidth - w - 8) + "px";
    tip.style.top = e.clientY + 16 + "px";
  }

  // An entry is shown beside the timeline, and follows the line that is chosen.
  const drawer = document.getElementById("drawer"), body = drawer.querySelector("[data-body]");
  let opener = null, asked = "";
  async function open(a) {
    opener = a.getAttribute("href");
    asked = a.href;
    let part;
    try {
      const r = await fetch(a.href, { credentials: "same-origin" });
      if (!r.ok) throw new Error(String(r.status));
      part = new DOMParser().parseFromString(await r.text(), "text/html").querySelector(".entry");
    } catch { part = null; }
    if (asked !== a.href) return; // another one was chosen meanwhile
    if (!part) { location.href = a.href; return; }
    body.replaceChildren(document.adoptNode(part));
    for (const row of body.querySelectorAll("[data-row]")) row.removeAttribute("data-row"); // j and k stay with the timeline
    drawer.querySelector("[data-page]").href = a.href;
    const was = drawer.hidden;
    drawer.hidden = false;
    tip.hidden = true;
    drawer.scrollTop = 0;
    if (was) drawer.focus();
    document.dispatchEvent(new Event("shown"));
  }
  function close() {
    drawer.hidden = true;
    asked = "";
    [...document.querySelectorAll("[data-entry]")].find((a) => a.getAttribute("href") === opener)?.focus();
  }
  drawer.querySelector("[data-close]").addEventListener("click", close);
  document.addEventListener("click", (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button || dragged) return;
    const link = e.target.closest("a"), row = e.target.closest(".tl tbody tr");
    if (!row || link && !link.matches("[data-entry]") || e.detail === 1 && !document.getSelection().isCollapsed) return;
    const a = (row.matches(".sub") ? row.previousElementSibling : row).querySelector("[data-entry]");
    if (!a) return;
    e.preventDefault();
    for (const other of document.querySelectorAll("tr.at")) other.classList.remove("at");
    a.closest("tr").classList.add("at");
    open(a);
  });
  document.addEventListener("focusin", (e) => {
    if (!drawer.hidden && e.target.matches("[data-entry]") && e.target.href !== asked) open(e.target);
  });

  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  document.documentElement.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("refreshed", draw);
  draw();
})();
