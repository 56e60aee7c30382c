// Texts to copy, each under its label: shown whole, copied by a button.
import type { Snippet } from "../../wire.gen";
import base from "../base.css";
import { h } from "../dom";
import css from "./snippets.css";

/** The trait of `trt_lab.widgets.snippets.SnippetsWidget`. */
interface SnippetsModel {
  get(name: "snippets"): Snippet[];
  on(name: string, callback: () => void): void;
  off(name: string, callback: () => void): void;
}

interface Render {
  model: SnippetsModel;
  el: HTMLElement;
  signal: AbortSignal;
}

const TOLD_MS = 2000;

/** Pages that are not served over https or from this machine have no clipboard; there the text is selected. */
async function copy(text: string, shown: HTMLElement): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return "✓ Copied";
  } catch {
    getSelection()?.selectAllChildren(shown);
    return "Selected: press Ctrl+C";
  }
}

function block({ label, text }: Snippet): HTMLElement {
  const code = h("pre", { class: "trt-snippet-text", tabindex: "0", "aria-label": label, text });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const press = async (): Promise<void> => {
    button.textContent = await copy(text, code);
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = "Copy";
    }, TOLD_MS);
  };
  const button = h("button", {
    class: "trt-button",
    type: "button",
    "aria-live": "polite",
    title: `Copy ${label}`,
    text: "Copy",
    onclick: () => void press(),
  });
  return h(
    "div",
    { class: "trt-snippet" },
    h("div", { class: "trt-snippet-head" }, h("span", { class: "trt-snippet-label", text: label }), button),
    code,
  );
}

export default {
  render({ model, el, signal }: Render): void {
    const list = h("div", { class: "trt-snippets", "data-lm-suppress-shortcuts": "true" });
    const show = (): void => list.replaceChildren(...model.get("snippets").map(block));
    el.classList.add("trt-host");
    el.append(h("style", { text: base + css }), list);
    model.on("change:snippets", show);
    signal.addEventListener("abort", () => model.off("change:snippets", show));
    show();
  },
};
