// Runs and moves put together from the facts of the log.
import type { EventRow } from "../api";
import type { Run } from "./Timeline.svelte";

export function runsOf(facts: EventRow[], now: number): Run[] {
  const runs = new Map<string, Run>();
  for (const { kind, at_s, fact } of facts) {
    const key = `${fact.job}.${fact.index}.${fact.run}`;
    if (kind === "TaskPlaced") {
      runs.set(key, { task: `${fact.job}.${fact.index}`, index: fact.index, run: fact.run, node: fact.node, from: at_s, start: null, until: null, status: "", reason: "", pauses: [] });
      continue;
    }
    const run = runs.get(key);
    if (!run) continue;
    if (kind === "TaskStarted") run.start = at_s;
    if (kind === "TaskStopping") run.reason = fact.reason;
    if (kind === "TaskSuspended") run.pauses.push({ from: at_s, until: null });
    if (kind === "TaskWentOn" || kind === "TaskEnded") {
      const pause = run.pauses.at(-1);
      if (pause) pause.until ??= at_s;
    }
    if (kind === "TaskEnded") {
      run.until = Math.min(at_s, Math.max(now, at_s));
      run.status = fact.status;
      run.reason = fact.reason || run.reason;
    }
  }
  return [...runs.values()];
}

export interface Move { task: string; from: string; to: string; at_s: number; gap_s: number | null; reason: string }

/** Each run that ended for a move or a loss, with the next run of the same task. */
export function movesOf(runs: Run[]): Move[] {
  const byTask = Map.groupBy(runs, (run) => run.task);
  const moves: Move[] = [];
  for (const [task, line] of byTask) {
    line.sort((a, b) => a.run - b.run);
    line.forEach((run, k) => {
      const next = line[k + 1];
      if (!next || run.until === null || run.node === next.node) return;
      if (!run.reason.startsWith("moved") && run.status !== "lost") return;
      moves.push({ task, from: run.node, to: next.node, at_s: run.until, gap_s: next.start === null ? null : next.start - run.until, reason: run.reason || run.status });
    });
  }
  return moves.sort((a, b) => b.at_s - a.at_s);
}
