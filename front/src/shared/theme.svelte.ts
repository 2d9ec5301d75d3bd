// Light or dark: the reader's choice, else the system's. Paper is always light.
type Theme = "light" | "dark";

const KEY = "murmur-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme | null {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null; // a page opened from disk may have no storage
  }
}

class ThemeState {
  chosen = $state<Theme | null>(stored());
  system = $state<Theme>(system.matches ? "dark" : "light");
  printing = $state(false);
  current = $derived<Theme>(this.printing ? "light" : (this.chosen ?? this.system));

  constructor() {
    system.addEventListener("change", (event) => {
      this.system = event.matches ? "dark" : "light";
      this.apply(this.printing);
    });
    addEventListener("beforeprint", () => this.apply(true));
    addEventListener("afterprint", () => this.apply(false));
    this.apply(false);
  }

  apply(printing: boolean) {
    this.printing = printing;
    document.documentElement.dataset.theme = this.current;
  }

  toggle() {
    this.chosen = this.current === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, this.chosen);
    } catch {
      // not kept, then
    }
    this.apply(false);
  }
}

export const theme = new ThemeState();

/** The value of a colour of the palette as it is now. Reading `theme.current` makes drawings follow a change. */
export function colour(name: string): string {
  void theme.current;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const paletteName = (place: number) => `c${place % 8}`;
