// Lines with uPlot: data on one common x, bands, error bars, reference lines; and the same picture as SVG.
import uPlot from "uplot";
import { clock, tickLabel } from "../format";
import { colour, paletteName } from "../theme.svelte";
import type { Chart, Series } from "./figures";
import { escapeXml, legend } from "./save";

export const hue = (series: Series, place: number) => paletteName(series.colour ?? place);

/** Columns for uPlot: x, then y, low and high of each series. Missing at an x is undefined, a gap is null. */
export function columns(chart: Chart): uPlot.AlignedData {
  const tables = chart.series.map((series) => {
    const order = series.x.map((_, k) => k).sort((a, b) => series.x[a]! - series.x[b]!);
    const keep = order.filter((k, place) => place + 1 === order.length || series.x[order[place + 1]!] !== series.x[k]);
    const usable = chart.x_log ? keep.filter((k) => series.x[k]! > 0) : keep;
    const pick = (values?: (number | null)[] | null) => usable.map((k) => positive(values?.[k] ?? null, chart.y_log));
    return [usable.map((k) => series.x[k]!), pick(series.y), pick(series.low), pick(series.high)] as uPlot.AlignedData;
  });
  return tables.length ? uPlot.join(tables) : [[], []];
}

const positive = (value: number | null, log?: boolean) => (log && value !== null && value <= 0 ? null : value);

export function options(chart: Chart, width: number, height: number, onCursor: (at: number | null) => void, onZoom: (zoomed: boolean, from: number, until: number) => void): uPlot.Options {
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1, size: 4 }, font };
  return {
    width,
    height,
    padding: [10, 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false, uni: 20 }, sync: { key: chart.x_label || "x" } },
    scales: {
      x: { time: !!chart.x_time, distr: chart.x_log ? 3 : 1 },
      y: { distr: chart.y_log ? 3 : 1, range: chart.y_log ? (chart.y_shared ? decades(...chart.y_shared) : undefined) : (_, low, high) => yRange(chart, low, high) },
    },
    axes: [
      { ...axis, size: 34, space: 70, ...(chart.x_time ? { values: (_: uPlot, ticks: number[]) => ticks.map(clock) } : { values: (_: uPlot, ticks: number[]) => ticks.map((t) => labelled(t, chart.x_log)) }) },
      { ...axis, size: 56, space: 30, values: (_: uPlot, ticks: number[]) => ticks.map((t) => labelled(t, chart.y_log, chart.y_percent)) },
    ],
    series: [{}, ...chart.series.flatMap((series, place) => drawn(series, colour(hue(series, place))))],
    bands: chart.series.flatMap((series, place) => (series.low && series.high && !series.markers ? [{ series: [3 * place + 3, 3 * place + 2] as [number, number], fill: `${colour(hue(series, place))}26` }] : [])),
    hooks: {
      setCursor: [(u) => onCursor(u.cursor.idx ?? null)],
      setScale: [(u, key) => key === "x" && onZoom(isZoomed(u), u.scales.x!.min!, u.scales.x!.max!)],
      draw: [(u) => errorBars(u, chart), (u) => referenceLines(u, chart)],
    },
  };
}

function labelled(value: number | null, log?: boolean, asPercent?: boolean): string {
  if (value === null) return "";
  if (log && Math.abs(Math.log10(value) - Math.round(Math.log10(value))) > 1e-9) return "";
  return tickLabel(value, asPercent);
}

function yRange(chart: Chart, low: number | null, high: number | null): [number, number] {
  const marks = (chart.lines ?? []).map(([, value]) => value).filter(Number.isFinite);
  const [least, most] = chart.y_shared ?? [low ?? 0, high ?? 1];
  let from = Math.min(least, ...marks);
  let until = Math.max(most, ...marks);
  if (chart.y_from_zero !== false) from = Math.min(0, from);
  if (until === from) until = from + (Math.abs(from) || 1);
  const room = 0.06 * (until - from);
  return [from === 0 ? 0 : from - room, until + room];
}

/** The whole decades round two values. */
const decades = (low: number, high: number): [number, number] => [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 1e-9)];

function drawn(series: Series, stroke: string): uPlot.Series[] {
  const lonely = series.y.length === 1;
  const line: uPlot.Series = {
    stroke,
    width: series.markers && !series.dotted ? 1.5 : 1.8,
    dash: series.dotted ? [5, 4] : undefined,
    paths: series.stepped ? uPlot.paths.stepped!({ align: 1 }) : undefined,
    points: { show: series.markers || lonely || !!series.hollow, size: 6, fill: series.hollow?.some(Boolean) ? colour("card") : stroke },
  };
  const edge: uPlot.Series = { stroke: "transparent", points: { show: false } };
  return [line, edge, { ...edge }];
}

const isZoomed = (u: uPlot) => {
  const xs = u.data[0];
  return xs.length > 1 && ((u.scales.x!.min ?? xs[0]!) > xs[0]! + 1e-12 || (u.scales.x!.max ?? xs.at(-1)!) < xs.at(-1)! - 1e-12);
};

function errorBars(u: uPlot, chart: Chart) {
  const { ctx } = u;
  chart.series.forEach((series, place) => {
    if (!series.markers || !series.low || !series.high || !u.series[3 * place + 1]!.show) return;
    const [low, high] = [u.data[3 * place + 2]!, u.data[3 * place + 3]!];
    ctx.save();
    ctx.strokeStyle = colour(hue(series, place));
    ctx.lineWidth = 1.2 * devicePixelRatio;
    u.data[0].forEach((x, k) => {
      if (low[k] == null || high[k] == null) return;
      const at = u.valToPos(x, "x", true);
      ctx.beginPath();
      ctx.moveTo(at, u.valToPos(low[k]!, "y", true));
      ctx.lineTo(at, u.valToPos(high[k]!, "y", true));
      ctx.stroke();
    });
    ctx.restore();
  });
}

function referenceLines(u: uPlot, chart: Chart) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.strokeStyle = ctx.fillStyle = colour("reference");
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  for (const [name, value] of chart.lines ?? []) {
    const y = u.valToPos(value, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.fillText(name, bbox.left + 6 * devicePixelRatio, y - 5 * devicePixelRatio);
  }
  ctx.restore();
}

let clips = 0;

/** The plot as it stands, zoom and hidden series included, as the text of an SVG file; bare where the page has title, names and legend. */
export function plotSvg(u: uPlot, chart: Chart, isBare = false): string {
  const ratio = devicePixelRatio || 1;
  const [left, top, width, height] = [u.bbox.left / ratio, u.bbox.top / ratio, u.bbox.width / ratio, u.bbox.height / ratio];
  const at = (value: number, scale: "x" | "y") => u.valToPos(value, scale) + (scale === "x" ? left : top);
  const head = isBare ? 0 : 44;
  const clip = `c${(clips += 1)}`;
  const shown = chart.series.map((series, place) => ({ series, place })).filter(({ place }) => u.series[3 * place + 1]!.show);
  const parts = [
    isBare ? "" : `<text x="12" y="20" font-size="14" font-weight="600" fill="${colour("ink")}">${escapeXml(chart.title)}</text><text x="12" y="38" fill="${colour("muted")}">${escapeXml(chart.y_label)}</text>`,
    `<g transform="translate(0,${head})">`,
    ...axisSvg(u, at, left, top, width, height, isBare || chart.x_time ? "" : chart.x_label),
    `<clipPath id="${clip}"><rect x="${left}" y="${top}" width="${width}" height="${height}"/></clipPath><g clip-path="url(#${clip})">`,
    ...shown.flatMap(({ series, place }) => seriesSvg(u, series, place, at)),
    "</g>",
    ...(chart.lines ?? []).map(([name, value]) => `<path d="M${left} ${at(value, "y").toFixed(1)}h${width}" stroke="${colour("reference")}" stroke-dasharray="5 4"/><text x="${left + 6}" y="${(at(value, "y") - 5).toFixed(1)}" fill="${colour("reference")}">${escapeXml(name)}</text>`),
    "</g>",
  ];
  const keys = shown.filter(({ series }) => series.name && !isBare).map(({ series, place }): [string, string] => [series.name, colour(hue(series, place))]);
  const [names, end] = legend(keys, u.width, head + u.height + 16, colour("ink"));
  const tall = isBare ? u.height : end + 12;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${u.width}" height="${tall}" viewBox="0 0 ${u.width} ${tall}" font-family="system-ui, sans-serif" font-size="11"><rect width="100%" height="100%" fill="${colour("card")}"/>${parts.join("")}${names}</svg>`;
}

function axisSvg(u: uPlot, at: (v: number, s: "x" | "y") => number, left: number, top: number, width: number, height: number, xLabel: string): string[] {
  // uPlot keeps the ticks it has drawn under these names.
  const [xAxis, yAxis] = u.axes as unknown as { _splits: number[]; _values: string[] }[];
  const muted = colour("muted");
  const line = colour("grid");
  const label = (text: unknown) => escapeXml(String(text ?? ""));
  return [
    ...(xAxis?._splits ?? []).map((tick, k) => `<path d="M${at(tick, "x").toFixed(1)} ${top}v${height}" stroke="${line}"/><text x="${at(tick, "x").toFixed(1)}" y="${top + height + 16}" text-anchor="middle" fill="${muted}">${label(xAxis?._values[k])}</text>`),
    ...(yAxis?._splits ?? []).map((tick, k) => `<path d="M${left} ${at(tick, "y").toFixed(1)}h${width}" stroke="${line}"/><text x="${left - 7}" y="${(at(tick, "y") + 4).toFixed(1)}" text-anchor="end" fill="${muted}">${label(yAxis?._values[k])}</text>`),
    `<text x="${left + width}" y="${top + height + 31}" text-anchor="end" fill="${muted}">${escapeXml(xLabel)}</text>`,
  ];
}

function seriesSvg(u: uPlot, series: Series, place: number, at: (v: number, s: "x" | "y") => number): string[] {
  const stroke = colour(hue(series, place));
  const xs = Array.from(u.data[0]);
  const column = (k: number) => u.data[3 * place + k]! as (number | null | undefined)[];
  const [y, low, high] = [column(1), column(2), column(3)];
  const found: string[] = [];
  const both = xs.map((_, k) => k).filter((k) => low[k] != null && high[k] != null);
  const point = (k: number, values: (number | null | undefined)[]) => `${at(xs[k]!, "x").toFixed(1)} ${at(values[k]!, "y").toFixed(1)}`;
  if (both.length && series.markers) found.push(`<path d="${both.map((k) => `M${point(k, low)}L${point(k, high)}`).join("")}" stroke="${stroke}" fill="none"/>`);
  else if (both.length) found.push(`<path d="M${both.map((k) => point(k, high)).join("L")}L${both.reverse().map((k) => point(k, low)).join("L")}Z" fill="${stroke}" opacity="0.15"/>`);
  let path = "";
  let pen = "M";
  xs.forEach((_, k) => {
    if (y[k] === undefined) return;
    if (y[k] === null) pen = "M";
    else {
      path += pen === "L" && series.stepped ? `H${at(xs[k]!, "x").toFixed(1)}V${at(y[k]!, "y").toFixed(1)}` : pen + point(k, y);
      pen = "L";
    }
  });
  if (path) found.push(`<path d="${path}" stroke="${stroke}" stroke-width="1.8" fill="none"${series.dotted ? ' stroke-dasharray="5 4"' : ""}/>`);
  if (series.markers) xs.forEach((x, k) => y[k] != null && found.push(`<circle cx="${at(x, "x").toFixed(1)}" cy="${at(y[k]!, "y").toFixed(1)}" r="3" fill="${stroke}"/>`));
  return found;
}
