// What a reader has chosen. Figures of one group show the same things in the same order, so a choice in one of them holds in all.
export type Ranges = Record<number, [number, number]>;
interface Choice {
  ranges: Ranges;
  keeps: (row: number) => boolean;
}

class Brushes {
  private chosen = $state.raw<Record<string, Record<string, Choice>>>({});

  /** The ranges that one figure has chosen, by axis. */
  ranges(group: string, figure: string): Ranges {
    return this.chosen[group]?.[figure]?.ranges ?? {};
  }
  choose(group: string, figure: string, ranges: Ranges, keeps: Choice["keeps"]) {
    const rest = { ...this.chosen[group] };
    if (Object.keys(ranges).length) rest[figure] = { ranges, keeps };
    else delete rest[figure];
    this.chosen = { ...this.chosen, [group]: rest };
  }
  clear(group: string) {
    this.chosen = { ...this.chosen, [group]: {} };
  }
  isActive(group: string): boolean {
    return Object.keys(this.chosen[group] ?? {}).length > 0;
  }
  passes(group: string, row: number): boolean {
    return Object.values(this.chosen[group] ?? {}).every((choice) => choice.keeps(row));
  }
}

export const brushes = new Brushes();
export const groupOf = (figure: { group?: string; title: string }) => figure.group || figure.title;
