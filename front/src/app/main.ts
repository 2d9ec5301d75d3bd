import "uplot/dist/uPlot.min.css";
import "../shared/theme.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { live } from "./live.svelte";

mount(App, { target: document.getElementById("app")! });
void live.start();
