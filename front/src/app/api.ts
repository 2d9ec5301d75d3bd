// Requests to the master this page came from. The header is what no other site can send.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly field = "",
  ) {
    super(message);
  }
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const init: RequestInit = { method, credentials: "same-origin", headers: { "x-murmur": "1" } };
  if (body !== undefined) init.body = JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ApiError(0, "the master does not answer");
  }
  if (response.ok) return response;
  let message = `the master answered ${response.status}`;
  let field = "";
  try {
    ({ error: message, field = "" } = await response.json());
  } catch {
    // no JSON: the status must do
  }
  throw new ApiError(response.status, message, field);
}

export const get = async <T>(path: string): Promise<T> => (await send("GET", path)).json();
export const post = async <T>(path: string, body: unknown = {}): Promise<T> => (await send("POST", path, body)).json();
export const remove = async <T>(path: string): Promise<T> => (await send("DELETE", path)).json();
export const getRaw = (path: string) => send("GET", path);
export const part = encodeURIComponent;

export interface Session {
  name: string;
  role: string;
  may_submit: boolean;
  may_operate: boolean;
  /** When the log of a cluster that is gone ended. */
  recorded_s: number | null;
}
export interface Snapshot {
  index: number;
  at_s: number;
  epoch: number;
  version: number;
  trouble: string;
  nodes: Record<string, number>;
  types: Record<string, number>;
  resources: Record<string, [number, number, number, number]>;
  tasks: { active: number; waiting: number; suspended: number };
}
export interface History {
  at_s: number[];
  required: Record<string, number[]>;
  used: Record<string, number[]>;
  waiting: number[];
  active: number[];
  suspended: number[];
  users: Record<string, number[]>;
  frameworks: Record<string, number[]>;
}
export interface JobRow {
  job: string;
  kind: string;
  state: string;
  tasks: Record<string, number>;
  count: number;
  reason: string;
  priority: number;
  user: string;
  submit_s: number;
  age_s: number;
  ended_s: number | null;
  code: number | null;
}
export interface TaskRow {
  task: string;
  job: string;
  state: string;
  node: string;
  run: number;
  reason: string;
  code: number | null;
  started_s: number | null;
  ended_s: number | null;
  age_s: number;
  cpu_s: number | null;
  memory: number | null;
}
export interface NodeRow {
  node: string;
  state: string;
  reason: string;
  tasks: number;
  total: Record<string, number>;
  required: Record<string, number>;
  used: Record<string, number>;
  attributes: Record<string, string | number>;
}
export interface QueueRow {
  position: number;
  job: string;
  user: string;
  priority: number;
  waiting: number;
  suspended: number;
  count: number;
  request: Record<string, number>;
  waited_s: number;
  tier: string;
  reason: string;
  unblock: string[];
  wakes_on: string;
  start_in_s: number | null;
  start_early_s: number | null;
  start_late_s: number | null;
  start_ground: string;
  start_is_latest: boolean;
}
export interface Decision {
  job: string;
  at_s: number;
  tasks: number;
  request: string;
  considered: number;
  filtered: Record<string, number>;
  feasible: number;
  best: { node: string; free: string; score: number | null }[];
  chosen: [string, number][];
  picked: { node: string; tasks: number; free: string; score: number | null; rank: number | null }[];
  placed: number;
  verdict: { reason: string; wakes_on?: string } | null;
  verdict_kind: "wait" | "never" | null;
  unblock: string[];
  notes: string[];
  how: string;
}
export interface Decided {
  job: string;
  decisions: Decision[];
  note: string;
}
export interface Why {
  job: string;
  state: string;
  tasks: Record<string, number>;
  tier: string;
  reason: string;
  position: number;
  ahead: string[];
  wakes_on: string;
  closed: Record<string, number>;
  decision: Decision | null;
}
export interface Trial {
  job: string;
  placed: [string, string][];
  unplaced: number;
  decision: Decision;
  note: string;
}
export interface MoveForecast {
  task: string;
  origin: string;
  target: string;
  decision: Decision;
}
export interface DrainForecast {
  node: string;
  at_s: number;
  tasks: { task: string; kind: string; fate: "moves" | "waits" | "stays"; target: string; ends_by_s: number | null }[];
}
export interface EventRow {
  index: number;
  at_s: number;
  kind: string;
  fact: Record<string, any>;
}
