// Above the graph: search, colouring, zoom; and below it the way to what is shown, and the legend.
import type { ColourBy, Crumb, Requests, Scene } from "../../wire.gen";
import { h } from "../dom";
import { css, type Theme } from "../theme";
import { type Palette, scaleColour, scaleOf, signOf } from "./palette";

type Colours = Requests["graph.colours"]["reply"];

const WAYS: [ColourBy, string][] = [
  ["type", "Type"],
  ["error", "Error of the diff"],
  ["local", "Local error"],
  ["accumulated", "Accumulated error"],
  ["time", "Time"],
  ["precision", "Precision"],
];

/** The choice of colours. */
export class ColourChoice {
  readonly #select = h(
    "select",
    { class: "trt-select", "aria-label": "Colour by" },
    ...WAYS.map(([value, text]) => h("option", { value, text })),
  );
  readonly element = h(
    "label",
    { class: "trt-choice" },
    h("span", { class: "trt-faint", text: "Colour by" }),
    this.#select,
  );

  constructor(change: (by: ColourBy) => void) {
    this.#select.addEventListener("change", () => change(this.#select.value as ColourBy));
  }

  set(by: string): void {
    this.#select.value = by;
  }
}

/** Buttons that do what keys do. */
export function toolButtons(undo: HTMLElement, zoom: (factor: number) => void, fit: () => void): HTMLElement {
  const button = (text: string, title: string, press: () => void): HTMLElement =>
    h("button", { class: "trt-icon", type: "button", text, title, "aria-label": title, onclick: press });
  return h(
    "div",
    { class: "trt-zoom", role: "group", "aria-label": "Undo and zoom" },
    undo,
    button("−", "Zoom out (-)", () => zoom(1 / 1.3)),
    button("+", "Zoom in (+)", () => zoom(1.3)),
    button("⤢", "Show all (Home)", fit),
  );
}

/** Takes back the newest probe or kept node; says which. */
export class UndoButton {
  readonly element: HTMLButtonElement;

  constructor(press: () => void) {
    this.element = h("button", { class: "trt-icon", type: "button", text: "↶", onclick: press });
  }

  /** @param what In words; "" when there is nothing. */
  show(what: string): void {
    const title = what ? `Undo: ${what} (Ctrl+Z)` : "Nothing to undo";
    this.element.title = title;
    this.element.setAttribute("aria-label", title);
    this.element.disabled = what === "";
  }
}

/** Where we are: graph by graph, and how much of it is drawn. */
export class Crumbs {
  readonly element = h("nav", { class: "trt-crumbs", "aria-label": "Scope" });

  constructor(
    readonly openGraph: (graph: string) => void,
    readonly openScope: (scope: string) => void,
  ) {}

  /** @param scope Scope of the selected item: its steps follow those of the graph. */
  show(scene: Scene, scope: string): void {
    const steps: HTMLElement[] = [];
    const add = (label: string, title: string, press: () => void): void => {
      if (steps.length > 0) steps.push(h("span", { class: "trt-faint", "aria-hidden": "true", text: "›" }));
      steps.push(h("button", { class: "trt-link", type: "button", text: label, title, onclick: press }));
    };
    for (const crumb of scene.crumbs) this.#graphStep(crumb, add);
    const parts = scope.split("/").filter(Boolean);
    parts.forEach((part, index) => {
      const path = `${scope.startsWith("/") ? "/" : ""}${parts.slice(0, index + 1).join("/")}`;
      add(part, `Scope ${path}`, () => this.openScope(path));
    });
    const shown = scene.nodes === 1 ? "1 node" : `${scene.nodes.toLocaleString("en")} nodes`;
    steps.push(h("span", { class: "trt-faint trt-count", text: shown }));
    for (const note of scene.notes)
      steps.push(
        h("span", { class: "trt-chip", text: "note", title: note, tabindex: "0", "aria-label": `Note: ${note}` }),
      );
    this.element.replaceChildren(...steps);
  }

  #graphStep(crumb: Crumb, add: (label: string, title: string, press: () => void) => void): void {
    add(crumb.label, crumb.graph ? `Graph ${crumb.graph}` : "Main graph", () => this.openGraph(crumb.graph));
  }
}

/** What the colours and signs mean. */
export class Legend {
  readonly element = h("div", { class: "trt-legend", "aria-label": "Legend", role: "group" });

  show(colours: Colours, palette: Palette): void {
    const entries = colours.legend.map((entry) => {
      const swatch = h("span", {
        class: "trt-swatch",
        "aria-hidden": "true",
        text: colours.by === "type" ? signOf(entry.label) : "",
      });
      swatch.style.backgroundColor = palette.swatch(entry);
      swatch.style.color = palette.inkOn(palette.swatch(entry));
      return h("span", { class: "trt-entry" }, swatch, entry.label);
    });
    if (colours.scale) entries.push(this.#scale(colours.by, colours.scale, palette.theme));
    if (colours.safe !== null) entries.push(this.#safe(colours.safe, colours.hidden ?? 0));
    if (colours.missing) entries.push(h("span", { class: "trt-faint", text: colours.missing }));
    this.element.replaceChildren(...entries);
  }

  /** The sign of tensors that can be looked at without changing the engine, and how many cannot. */
  #safe(safe: number, hidden: number): HTMLElement {
    const sign = h("span", { class: "trt-safe-sign", "aria-hidden": "true" });
    if (hidden === 0) return h("span", { class: "trt-faint", text: "every tensor is safe to probe" });
    const title = `A probe on ${hidden} of ${safe + hidden} tensors changes the engine: they lie inside its layers.`;
    return h("span", { class: "trt-entry", title }, sign, `safe to probe: ${safe} of ${safe + hidden} tensors`);
  }

  #scale(by: ColourBy, [low, high]: [string, string], theme: Theme): HTMLElement {
    const ramp = h("span", { class: "trt-ramp", "aria-hidden": "true" });
    const stops = [0, 0.25, 0.5, 0.75, 1].map((level) => css(scaleColour(scaleOf(by) ?? "error", level, theme)));
    ramp.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
    return h("span", { class: "trt-entry" }, low, ramp, high);
  }
}
