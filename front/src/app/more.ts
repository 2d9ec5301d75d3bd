// Every page but the first, loaded when one of them is opened.
export { default as events } from "./pages/Events.svelte";
export { default as fairness } from "./pages/Fairness.svelte";
export { default as job } from "./pages/Job.svelte";
export { default as jobs } from "./pages/Jobs.svelte";
export { default as migrations } from "./pages/Migrations.svelte";
export { default as node } from "./pages/Node.svelte";
export { default as queue } from "./pages/Queue.svelte";
export { default as run } from "./pages/Run.svelte";
export { default as why } from "./pages/Why.svelte";
