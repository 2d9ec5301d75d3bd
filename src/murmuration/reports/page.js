"use strict";
(() => {
  const root = document.documentElement;
  const remember = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* a local file may not store */ } };
  const recall = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const chosen = [location.hash.slice(1), recall()].find((theme) => theme === "light" || theme === "dark");
  if (chosen) root.dataset.theme = chosen;

  function toggle() {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
  }

  function human(value, unit) {
    if (typeof value !== "number") return value;
    if (unit === "%") return `${(100 * value).toFixed(1)} %`;
    if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(3);
    const small = Math.abs(value) < 1000;
    return value.toLocaleString("en-US", small ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 });
  }

  const nearest = (list, at) => list.reduce((best, value) => Math.abs(value - at) < Math.abs(best - at) ? value : best);

  function add(parent, name, kind, text = "") {
    const made = parent.appendChild(document.createElement(name));
    made.className = kind;
    made.textContent = text;
    return made;
  }

  function mark(parent, name, kind, place = {}) {
    const made = parent.appendChild(document.createElementNS(parent.namespaceURI, name));
    made.setAttribute("class", kind);
    for (const [key, value] of Object.entries(place)) made.setAttribute(key, value);
    return made;
  }

  function read(group) {
    const { name, unit, xName } = group.dataset;
    const lists = ["px", "py", "x", "y", "hollow"].map((key) => [key, JSON.parse(group.dataset[key] ?? "[]")]);
    return { name, unit, xName, colour: group.classList[1], ...Object.fromEntries(lists) };
  }

  function listen(svg) {
    const series = [...svg.querySelectorAll("[data-px]")].map(read).filter((one) => one.px.length);
    if (!series.length) return;
    svg.querySelectorAll("title").forEach((title) => title.remove()); // The readout says the same, and sooner.
    const stops = series.flatMap((one) => one.px);
    const marks = mark(svg, "g", "marks");
    const card = add(svg.parentElement, "div", "readout");
    const lines = svg.classList.contains("lines");
    const { top, bottom } = svg.dataset;

    function show(event) {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const at = nearest(stops, (event.clientX - box.left) * scale);
      marks.replaceChildren();
      card.replaceChildren();
      if (lines) mark(marks, "line", "crosshair", { x1: at, x2: at, y1: top, y2: bottom });
      for (const one of series) {
        const i = one.px.indexOf(nearest(one.px, at));
        if (Math.abs(one.px[i] - at) > 4) continue;
        if (!card.childElementCount) add(card, "b", "", `${one.xName} ${human(one.x[i])}`.trim());
        const row = add(card, "div", one.colour);
        add(row, "i", one.hollow[i] ? "open" : "");
        add(row, "span", "", one.name);
        add(row, "em", "", human(one.y[i], one.unit));
        if (lines) mark(marks, "circle", `dot ${one.colour}`, { cx: one.px[i], cy: one.py[i], r: 4.5 });
      }
      const left = at / scale, flip = left > box.width / 2;
      const side = flip ? `right:${box.width - left + 14}px` : `left:${left + 14}px`;
      card.style.cssText = `display:block;top:${top / scale}px;${side}`;
    }

    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerleave", () => { marks.replaceChildren(); card.style.display = "none"; });
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggle);
    document.querySelectorAll("svg.chart").forEach(listen);
  });
})();
