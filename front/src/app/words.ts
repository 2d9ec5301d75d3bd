// Every state, fact and reason that a master speaks of, with the kind of its pill; a test holds the file against the master's own list.
import all from "./words.json";

interface Word { kind: string; word?: string; colour?: string }
export const TASKS: Record<string, Word> = all.tasks;
export const STATES: Record<string, Word> = { ...all.tasks, ...all.nodes };
export const FACTS: Record<string, Word> = all.facts;
export const TIERS: Record<string, Word> = all.tiers;
/** Of what is on a node: it can be stopped there, and run elsewhere. */
export const MOVABLE = ["running", "starting", "suspended"];
