// Where the cells of many nodes lie: rows as wide as the page, each cell the less of a drawing the more there are.
export interface Layout {
  across: number;
  width: number;
  height: number;
  /** Of one cell with its gap. */
  cell: { width: number; height: number };
  /** Names are drawn, or there is no room for them. */
  named: boolean;
  /** A bar for each part, or one shade for all. */
  barred: boolean;
}

export function layout(given: number, count: number, parts: number, bar = 7): Layout {
  const width = Math.max(120, given); // none is known before the first drawing
  const named = count <= 120;
  const barred = count <= 600;
  const height = named ? 18 + parts * (bar + 2) + 8 : barred ? parts * (bar + 1) + 6 : 15;
  const least = named ? 104 : barred ? 34 : 15;
  // Few have a fifth of the row each.
  const across = Math.max(1, Math.min(Math.floor(width / least), Math.max(5, count)));
  const wide = barred ? width / across : least;
  return { across, width, height: Math.max(1, Math.ceil(count / across)) * height, cell: { width: wide, height }, named, barred };
}

export const corner = (at: Layout, k: number) => ({ x: (k % at.across) * at.cell.width, y: Math.floor(k / at.across) * at.cell.height });
export const centre = (at: Layout, k: number) => {
  const { x, y } = corner(at, k);
  return { x: x + at.cell.width / 2 - 3, y: y + at.cell.height / 2 - (at.named ? 2 : 1) };
};
/** As much of a name as fits: a letter is about 6 pixels wide. */
export const shorten = (name: string, pixels: number) => {
  const room = Math.max(3, Math.floor(pixels / 6.1));
  return name.length <= room ? name : `${name.slice(0, Math.ceil(room / 2) - 1)}…${name.slice(name.length - Math.floor(room / 2))}`;
};
