import "uplot/dist/uPlot.min.css";
import "../shared/theme.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { live } from "./live.svelte";

const target = document.getElementById("app")!;
target.replaceChildren();
mount(App, { target });
void live.start();
