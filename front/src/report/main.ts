import "uplot/dist/uPlot.min.css";
import "../shared/theme.css";
import { mount } from "svelte";
import Report from "./Report.svelte";

const page = JSON.parse(document.getElementById("data")!.textContent!);
mount(Report, { target: document.getElementById("app")!, props: { page } });
