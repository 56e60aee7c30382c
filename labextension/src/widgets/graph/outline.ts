// The graph for a screen reader: a list box with an option for each box drawn, and a line that tells what happens.
// It is visually hidden; the canvas is not read out. Only a window of the options is in the page: models are large.
import { h } from "../dom";
import { markLook } from "../marks";
import type { GraphScene, Item, Paints } from "./scene";

const WINDOW = 60;

const KINDS: Record<Item["kind"], string> = {
  node: "node",
  scope: "closed scope",
  frame: "open scope",
  input: "model input",
  output: "model output",
  portal: "portal",
  outer: "tensor of an outer graph",
};

/** What is said of an item. */
export function describe(item: Item, paints: Paints): string {
  const paint = paints.of(item);
  const mark = markLook(paint.mark);
  const parts = [
    item.label === item.id ? item.id : `${item.label}, ${item.id}`,
    item.kind === "node" ? "" : KINDS[item.kind],
    item.kind === "scope" || item.kind === "frame" ? `${item.count} nodes` : "",
    mark ? mark.word : "",
    paint.figure,
    paint.probed ? "probed" : "",
    paint.kept ? "kept in FP32" : "",
    paint.safe && !paint.probed ? "safe to probe" : "",
    item.kind === "frame" ? "" : `${item.into.length} in, ${item.out.length} out`,
  ];
  return parts.filter(Boolean).join("; ");
}

let made = 0;

export class Outline {
  readonly list = h("div", { class: "trt-hidden", role: "presentation" });
  readonly live = h("div", { class: "trt-hidden", role: "status", "aria-live": "polite" });
  readonly #prefix = `trt-item-${++made}`;
  #scene: GraphScene | null = null;

  /** @param stage The element that has the focus and the role `listbox`. */
  constructor(readonly stage: HTMLElement) {
    stage.append(this.list);
  }

  /** Shows the options around the active item. */
  update(scene: GraphScene, paints: Paints, active: Item | null): void {
    const middle = active?.index ?? 0;
    const first = Math.max(0, Math.min(middle - WINDOW / 2, scene.items.length - WINDOW));
    const options = scene.items.slice(first, first + WINDOW).map((item) =>
      h("div", {
        role: "option",
        id: `${this.#prefix}-${item.index}`,
        "aria-selected": item === active ? "true" : "false",
        "aria-posinset": item.index + 1,
        "aria-setsize": scene.items.length,
        "data-id": item.id,
        text: describe(item, paints),
      }),
    );
    this.list.replaceChildren(...options);
    if (active) this.stage.setAttribute("aria-activedescendant", `${this.#prefix}-${active.index}`);
    else this.stage.removeAttribute("aria-activedescendant");
    this.#scene = scene;
  }

  say(text: string): void {
    if (this.#scene) this.live.textContent = text;
  }
}
