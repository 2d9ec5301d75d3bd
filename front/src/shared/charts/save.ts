// A plot as a file: SVG as it is drawn, PNG made from that, and its numbers as CSV.
export function download(name: string, kind: string, body: BlobPart) {
  const url = URL.createObjectURL(new Blob([body], { type: kind }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export async function downloadPng(name: string, svg: string) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
  const context = canvas.getContext("2d")!;
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  canvas.toBlob((blob) => blob && download(name, "image/png", blob));
}

/** Several drawings as one, in rows of so many. */
export function tile(drawings: string[], across: number): string {
  const size = (svg: string) => /width="([\d.]+)" height="([\d.]+)"/.exec(svg)!.slice(1).map(Number) as [number, number];
  const sizes = drawings.map(size);
  const [width, height] = [0, 1].map((k) => Math.max(...sizes.map((s) => s[k]!))) as [number, number];
  const placed = drawings.map((svg, k) => svg.replace("<svg ", `<svg x="${(k % across) * width}" y="${Math.floor(k / across) * height}" `));
  const whole = [across * width, Math.ceil(drawings.length / across) * height];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${whole[0]}" height="${whole[1]}" viewBox="0 0 ${whole[0]} ${whole[1]}">${placed.join("")}</svg>`;
}

export const fileName = (title: string) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "plot";
export const escapeXml = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** What stands round a drawing in a file: its title, what its axes show, and names with their colours. */
export interface Frame {
  title: string;
  above?: string;
  below?: string;
  keys: [string, string][];
}

const LETTER = 6.6;

/** Names with their colours in as many rows as they need, from so far down; and where they end. */
export function legend(keys: [string, string][], width: number, from: number, ink: string): [string, number] {
  let [x, y] = [12, from];
  const parts = keys.map(([name, fill]) => {
    const wide = 32 + LETTER * name.length;
    if (x > 12 && x + wide > width) [x, y] = [12, y + 17];
    const text = `<rect x="${x}" y="${y - 8}" width="12" height="8" rx="2" fill="${fill}"/><text x="${x + 17}" y="${y}" font-family="system-ui, sans-serif" font-size="11" fill="${ink}">${escapeXml(name)}</text>`;
    x += wide;
    return text;
  });
  return [parts.join(""), keys.length ? y : from - 14];
}

/** An SVG of the page as a file of its own: classes become the properties they stand for. */
export function standalone(svg: SVGSVGElement, frame: Frame, background: string, ink: string): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const into = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  const names = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor"];
  from.forEach((element, k) => {
    const style = getComputedStyle(element);
    for (const name of names) into[k]!.setAttribute(name, style.getPropertyValue(name));
    into[k]!.removeAttribute("class");
    into[k]!.removeAttribute("tabindex");
  });
  const [, , width, height] = (svg.getAttribute("viewBox") ?? "0 0 600 300").split(/\s+/).map(Number) as [number, number, number, number];
  const text = (x: number, y: number, what: string, size: number, more = "") => `<text x="${x}" y="${y}" font-family="system-ui, sans-serif" font-size="${size}" fill="${ink}"${more}>${escapeXml(what)}</text>`;
  const head = frame.above ? 48 : 32;
  const foot = head + height + (frame.below ? 16 : 0);
  const [keys, end] = legend(frame.keys, width + 24, foot + 18, ink);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width + 24}" height="${end + 12}" viewBox="0 0 ${width + 24} ${end + 12}">` +
    `<rect width="100%" height="100%" fill="${background}"/>${text(12, 20, frame.title, 14, ' font-weight="600"')}${frame.above ? text(12, 38, frame.above, 11) : ""}` +
    `<g transform="translate(12,${head})">${copy.innerHTML}</g>${frame.below ? text(width + 4, foot, frame.below, 11, ' text-anchor="end"') : ""}${keys}</svg>`
  );
}
