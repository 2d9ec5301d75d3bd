// What plots are made of: the same values as `murmuration.reports.figures`, with `kind` beside them.
export interface Series {
  name: string;
  x: number[];
  y: (number | null)[];
  low?: (number | null)[] | null;
  high?: (number | null)[] | null;
  dotted?: boolean;
  hollow?: boolean[] | null;
  colour?: number | null;
  markers?: boolean;
  /** Drawn apart, lines of one panel stay together. */
  panel?: string;
  /** A value holds until the next one. */
  stepped?: boolean;
}
export interface Chart {
  kind: "chart";
  title: string;
  x_label: string;
  y_label: string;
  series: Series[];
  x_log?: boolean;
  y_log?: boolean;
  lines?: [string, number][];
  note?: string;
  y_from_zero?: boolean;
  y_percent?: boolean;
  /** Seconds since 1970 on the horizontal axis. */
  x_time?: boolean;
  /** Drawn as small multiples at first. */
  apart?: boolean;
  /** One range for all panels. */
  y_shared?: [number, number];
  /** Not every point is here; whoever serves the page has them. */
  thinned?: boolean;
}
export interface Bars {
  kind: "bars";
  title: string;
  y_label: string;
  groups: string[];
  series: [string, (number | null)[]][];
  note?: string;
  y_log?: boolean;
  low?: (number | null)[][] | null;
  high?: (number | null)[][] | null;
  lines?: [string, number][];
  y_percent?: boolean;
}
export interface Scatter {
  kind: "scatter";
  title: string;
  x_label: string;
  y_label: string;
  points: [number, number][];
  marked: [string, number, number][];
  note?: string;
  group?: string;
}
export interface Parallel {
  kind: "parallel";
  title: string;
  axes: string[];
  rows: (number | null)[][];
  marked: [string, number[]][];
  note?: string;
  group?: string;
  labels?: string[][];
}
export interface Fills {
  kind: "fills";
  title: string;
  parts: string[];
  rows: [string, number[], number[]][];
  note?: string;
}
/** Task, kind, origin, target, amounts, start, end, wave; nodes by their places, −1 for none. */
export type PlayedMove = [string, string, number, number, number[], number, number, number];
export interface Playback {
  kind: "playback";
  title: string;
  parts: string[];
  nodes: [string, number[], number[]][];
  moves: PlayedMove[];
  note?: string;
}
export type Figure = Chart | Bars | Scatter | Parallel | Fills | Playback;
export interface Table {
  columns: string[];
  rows: unknown[][];
}

/** Column names and rows of the numbers that a plot shows. */
export function tableOf(figure: Figure): Table {
  switch (figure.kind) {
    case "bars":
      return barsTable(figure);
    case "chart":
      return chartTable(figure);
    case "scatter":
      return { columns: ["point", figure.x_label, figure.y_label], rows: [...figure.points.map(([x, y]) => ["", x, y]), ...figure.marked] };
    case "parallel":
      return { columns: ["line", ...figure.axes], rows: [...figure.rows.map((row) => ["", ...named(figure, row)]), ...figure.marked.map(([name, row]) => [name, ...named(figure, row)])] };
    case "playback":
      return { columns: ["step", "wave", "kind", "task", "from", "to", "begins s", "ends s"], rows: figure.moves.map(([task, kind, from, to, , start, end, wave], k) => [k + 1, wave, kind, task, figure.nodes[from]?.[0] ?? "", figure.nodes[to]?.[0] ?? "", start, end]) };
    case "fills":
      return {
        columns: ["name", ...["before", "after"].flatMap((when) => figure.parts.map((part) => `${part} ${when}`))],
        rows: figure.rows.map(([name, before, after]) => [name, ...before, ...after]),
      };
  }
}

const named = (parallel: Parallel, row: (number | null)[]) => row.map((v, k) => (v === null ? null : (parallel.labels?.[k]?.[v] ?? v)));

/** What each node holds of each part after so many moves. */
export function heldAfter(playback: Playback, steps: number): number[][] {
  const held = playback.nodes.map(([, , taken]) => [...taken]);
  for (const [, , origin, target, amounts] of playback.moves.slice(0, steps))
    amounts.forEach((amount, k) => {
      if (origin >= 0) held[origin]![k]! -= amount;
      if (target >= 0) held[target]![k]! += amount;
    });
  return held;
}

/** A chart whose lines are replaced within a range by others, which have more points. */
export function refine(chart: Chart, finer: Series[], from: number, until: number): Chart {
  const series = chart.series.map((coarse, k) => {
    const fine = finer[k]!;
    const [before, after] = [coarse.x.findIndex((x) => x >= from), coarse.x.findIndex((x) => x > until)];
    const [a, b] = [before < 0 ? coarse.x.length : before, after < 0 ? coarse.x.length : after];
    const inside = fine.x.map((x, i) => [x, i] as const).filter(([x]) => x >= from && x <= until).map(([, i]) => i);
    const merge = <T,>(old?: T[] | null, fresh?: T[] | null) => (old && fresh ? [...old.slice(0, a), ...inside.map((i) => fresh[i]!), ...old.slice(b)] : old);
    return { ...coarse, x: merge(coarse.x, fine.x)!, y: merge(coarse.y, fine.y)!, low: merge(coarse.low, fine.low), high: merge(coarse.high, fine.high) };
  });
  return { ...chart, series };
}

/** A chart as small multiples: one for each panel, all on one scale. */
export function panels(chart: Chart): Chart[] {
  const groups = new Map<string, Series[]>();
  chart.series.forEach((series, k) => {
    const panel = series.panel || series.name;
    const before = groups.get(panel) ?? [];
    // What has the same place in each panel has the same colour.
    groups.set(panel, [...before, { ...series, colour: series.panel ? before.length : (series.colour ?? k) }]);
  });
  const values = chart.series.flatMap((s) => [...s.y, ...(s.low ?? []), ...(s.high ?? [])]).filter((v): v is number => v !== null && Number.isFinite(v) && (!chart.y_log || v > 0));
  const y_shared: [number, number] | undefined = values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : undefined;
  return [...groups].map(([title, series]) => ({ ...chart, title, y_shared, series: series.map((s) => ({ ...s, name: s.panel ? s.name.replace(s.panel, "").trim() || s.name : s.name })) }));
}

function barsTable(bars: Bars): Table {
  const columns = ["group"];
  const rows: unknown[][] = bars.groups.map((group) => [group]);
  bars.series.forEach(([name, values], at) => {
    for (const [suffix, column] of [["", values], [" low", bars.low?.[at]], [" high", bars.high?.[at]]] as const) {
      if (!column) continue;
      columns.push(name + suffix);
      rows.forEach((row, k) => row.push(column[k] ?? null));
    }
  });
  return { columns, rows };
}

function chartTable(chart: Chart): Table {
  const columns = [chart.x_label || "x"];
  const cells = new Map<number, unknown[]>();
  let at = 1;
  for (const series of chart.series) {
    const parts = [["", series.y], [" low", series.low], [" high", series.high]] as const;
    for (const [suffix, values] of parts) {
      if (!values) continue;
      columns.push(series.name + suffix);
      series.x.forEach((x, k) => {
        if (!cells.has(x)) cells.set(x, []);
        cells.get(x)![at] = values[k] ?? null;
      });
      at += 1;
    }
  }
  const xs = [...cells.keys()].sort((a, b) => a - b);
  return { columns, rows: xs.map((x) => Array.from({ length: at }, (_, k) => (k ? (cells.get(x)![k] ?? null) : x))) };
}

/** The names in a drawing that is no chart, with the colours of the palette they have. */
export function keysOf(figure: Figure): [string, string][] {
  if (figure.kind === "bars") return figure.series.length > 1 ? figure.series.map(([name], k) => [name, `c${k % 8}`]) : [];
  if (figure.kind === "parallel" || figure.kind === "scatter") return figure.marked.map(([name], k) => [name, `c${(k + 1) % 8}`]);
  if (figure.kind === "fills") return [["before", "axis"], ["after", "c0"]];
  if (figure.kind === "playback") return figure.parts.slice(0, 2).map((part, k) => [part, k ? "c2" : "c0"]);
  return [];
}

/** What the axes of a drawing show. */
export const axesOf = (figure: Figure) => ({ above: "y_label" in figure ? figure.y_label : "", below: "x_label" in figure ? figure.x_label : "" });

export function csvOf(table: Table): string {
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
