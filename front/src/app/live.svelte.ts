// What the page knows of the cluster: one stream of snapshots, kept alive across restarts of the master.
import { ApiError, get, post, type Session, type Snapshot } from "./api";
import { code } from "./route.svelte";

export type Link = "opening" | "open" | "lost" | "shut";

class Live {
  session = $state<Session | null>(null);
  link = $state<Link>("opening");
  snapshot = $state<Snapshot | null>(null);
  /** The number of the master that answered before this one, shown until dismissed. */
  replaced = $state(0);
  trouble = $state("");
  private source: EventSource | null = null;

  async start() {
    if (code) await post("v1/enter", { code }).catch((error: ApiError) => (this.trouble = error.message));
    await this.open();
  }

  private async open() {
    try {
      this.session = await get<Session>("v1/session");
      this.trouble = "";
    } catch (error) {
      if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        this.link = "shut";
        return;
      }
      this.link = "lost";
      setTimeout(() => this.open(), 1000);
      return;
    }
    this.source = new EventSource("v1/watch");
    this.source.onmessage = (message) => this.take(JSON.parse(message.data));
    this.source.onerror = () => {
      this.source?.close();
      this.link = "lost";
      setTimeout(() => this.open(), 1000);
    };
  }

  private take(snapshot: Snapshot) {
    if (this.snapshot && snapshot.epoch !== this.snapshot.epoch) this.replaced = snapshot.epoch;
    this.snapshot = snapshot;
    this.link = "open";
  }

  async leave() {
    this.source?.close();
    await fetch("v1/session", { method: "DELETE", headers: { "x-murmur": "1" } });
    this.link = "shut";
    this.session = null;
  }
}

export const live = new Live();

/** Ask again when the cluster has changed, at most every `every` ms; and once at the start. */
export function follow(ask: () => Promise<void>, every = 1500): void {
  let last = -1;
  let busy = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = async () => {
    busy = true;
    try {
      await ask();
    } catch {
      last = -1;
    }
    timer = setTimeout(() => {
      busy = false;
      if (live.snapshot && live.snapshot.index !== last) void begin(live.snapshot.index);
    }, every);
  };
  const begin = (index: number) => {
    last = index;
    return run();
  };
  $effect(() => {
    const index = live.snapshot?.index ?? -1;
    if (!busy && index !== last) void begin(index);
  });
  $effect(() => () => clearTimeout(timer));
}
