/** Round steps that divide a range into about so many parts. */
export function ticks(low: number, high: number, parts = 5): number[] {
  const raw = (high - low) / parts || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 2.5, 5, 10].find((k) => k * unit >= raw - 1e-12) ?? 10);
  const found: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
export function logTicks(low: number, high: number): number[] {
  const found: number[] = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) if (10 ** k >= low * 0.999 && 10 ** k <= high * 1.001) found.push(10 ** k);
  return found;
}
