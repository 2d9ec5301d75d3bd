// The report: one script and one style sheet without imports, which Python embeds in a page with its data.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  publicDir: false,
  plugins: [svelte()],
  build: {
    outDir: "../src/murmuration/dashboard/built",
    emptyOutDir: false,
    cssCodeSplit: false,
    target: "es2022",
    rollupOptions: {
      input: "src/report/main.ts",
      output: { format: "iife", entryFileNames: "report.js", assetFileNames: "report[extname]" },
    },
  },
});
