// Numbers and times as people read them; the same rules as the terminal's.
const SUFFIXES: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Four significant digits, whole counts in full, a dash when missing. */
export function human(value: unknown): string {
  if (value === null || value === undefined) return "—";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (Number.isNaN(value)) return "—";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  if (size >= 999.95) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

export const percent = (value: number, digits = 1) => `${(100 * value).toFixed(digits)} %`;

/** A short label for an axis: 0.1, 10, 1k, 2.5M, 50 %. */
export function tickLabel(value: number, asPercent = false): string {
  if (asPercent) return `${Number((100 * value).toPrecision(8))} %`;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e15 || size < 1e-3) {
    const [mantissa, exponent] = value.toExponential(3).split("e");
    const power = "10" + superscript(Number(exponent));
    return Number(mantissa) === 1 ? power : `${Number(mantissa)}·${power}`;
  }
  for (const [unit, suffix] of SUFFIXES) if (size >= unit) return `${Number((value / unit).toPrecision(10))}${suffix}`;
  return String(Number(value.toPrecision(10)));
}

function superscript(value: number): string {
  return [...String(value)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
}

export function bytes(value: number): string {
  if (value === 0) return "0";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.abs(value)) / 10)));
  return `${Number((value / 2 ** (10 * step)).toPrecision(3))} ${units[step]}`;
}

export function amount(resource: string, value: number): string {
  return resource === "memory" || resource === "disk" ? bytes(value) : human(Number(value.toPrecision(3)));
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "—";
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${Math.round(s / 86400)} days`;
}

export const clock = (at_s: number) => new Date(at_s * 1000).toLocaleTimeString("en-GB");
/** A text with a capital at its beginning. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
export const plural = (count: number, word: string) => `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`;
/** `cpu` is written in capitals; others begin with one. */
export const resourceName = (name: string) => (name.length <= 3 ? name.toUpperCase() : `${name[0]?.toUpperCase()}${name.slice(1)}`);
