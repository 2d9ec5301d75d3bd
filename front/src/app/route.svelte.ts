// Pages are named after the hash, which a browser never sends.
/** The code of a link. It leaves the address and the history before anything else reads them. */
export const code = /^#\/enter\/([\w-]+)$/.exec(location.hash)?.[1] ?? "";
if (code) history.replaceState(null, "", "#/");

class Route {
  parts = $state<string[]>(read());
  constructor() {
    addEventListener("hashchange", () => {
      this.parts = read();
      scrollTo(0, 0);
      document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
    });
  }
  page = $derived(this.parts[0] || "cluster");
  name = $derived(this.parts[1] ?? "");
}

function read(): string[] {
  return location.hash.replace(/^#\/?/, "").split("/").map((text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  });
}

export const route = new Route();
export const to = (...parts: string[]) => `#/${parts.map(encodeURIComponent).join("/")}`;
