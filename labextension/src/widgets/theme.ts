// Colours of the Jupyter theme for what is drawn on a canvas, read again when the theme changes.

export interface Theme {
  dark: boolean;
  page: string;
  panel: string;
  inset: string;
  text: string;
  faint: string;
  line: string;
  accent: string;
  good: string;
  bad: string;
  unsure: string;
  probe: string;
  keep: string;
  font: string;
}

/** Red, green, blue from 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Reads `#abc`, `#aabbcc` and `rgb(…)`; other forms give null. */
export function parseColour(text: string): Rgb | null {
  const value = text.trim();
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(value);
  if (short) return [1, 2, 3].map((group) => Number.parseInt(`${short[group]}${short[group]}`, 16)) as unknown as Rgb;
  const long = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})(?:[0-9a-f]{2})?$/i.exec(value);
  if (long) return [1, 2, 3].map((group) => Number.parseInt(long[group] ?? "0", 16)) as unknown as Rgb;
  const parts = /^rgba?\(([^)]*)\)$/i
    .exec(value)?.[1]
    ?.split(/[\s,/]+/)
    .map(Number);
  if (!parts || parts.length < 3 || parts.slice(0, 3).some(Number.isNaN)) return null;
  return [parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0];
}

/** `amount` of `over` on top of `under`, as an opaque colour. */
export function mix(over: Rgb, under: Rgb, amount: number): Rgb {
  return [0, 1, 2].map((i) => Math.round((over[i] ?? 0) * amount + (under[i] ?? 0) * (1 - amount))) as unknown as Rgb;
}

export const css = (colour: Rgb): string => `rgb(${colour.join(",")})`;

/** Relative luminance of WCAG 2, 0 (black) to 1 (white). */
export function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

/** Contrast ratio of WCAG 2, from 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

/** The theme around an element. Fallbacks serve pages that are no Jupyter. */
export function readTheme(element: Element): Theme {
  const style = getComputedStyle(element);
  const variable = (name: string): string => style.getPropertyValue(name).trim();
  const known = parseColour(variable("--jp-layout-color1"));
  const dark = known ? luminance(known) < 0.4 : matchMedia("(prefers-color-scheme: dark)").matches;
  const either = (name: string, light: string, night: string): string => variable(name) || (dark ? night : light);
  return {
    dark,
    page: either("--jp-layout-color0", "#ffffff", "#111111"),
    panel: either("--jp-layout-color1", "#ffffff", "#1e1e1e"),
    inset: either("--jp-layout-color2", "#eeeeee", "#303030"),
    text: either("--jp-ui-font-color0", "#111111", "#ffffff"),
    faint: either("--jp-ui-font-color2", "#5a5a5a", "#b5b5b5"),
    line: either("--jp-layout-color4", "#757575", "#9e9e9e"),
    accent: dark ? "#64b5f6" : "#1565c0",
    good: dark ? "#81c784" : "#2e7d32",
    bad: dark ? "#ff8a80" : "#c62828",
    unsure: dark ? "#ffcc80" : "#8a5300",
    probe: dark ? "#4dd0e1" : "#006978",
    keep: dark ? "#ce93d8" : "#6a1b9a",
    font: variable("--jp-ui-font-family") || "system-ui, sans-serif",
  };
}

/** Calls `changed` when JupyterLab, Notebook or the system turns to another theme. */
export function watchTheme(changed: () => void, signal: AbortSignal): void {
  const observer = new MutationObserver(() => changed());
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "class", "style"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  // The style sheet of a Jupyter theme arrives after the attribute has changed.
  const sheets = new MutationObserver((records) => {
    const link = records.flatMap((record) => [...record.addedNodes]).find((node) => node instanceof HTMLLinkElement);
    link?.addEventListener("load", () => changed(), { once: true, signal });
  });
  for (const parent of [document.head, document.body]) sheets.observe(parent, { childList: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed(), { signal });
  signal.addEventListener("abort", () => {
    observer.disconnect();
    sheets.disconnect();
  });
}
