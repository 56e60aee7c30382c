// What the user is told in place of a figure, or above it.
import { h } from "../dom";

export type State = "ready" | "loading" | "failed" | "kernel";

export class Status {
  readonly element: HTMLElement;
  readonly #text = h("span");
  readonly #retry: HTMLButtonElement;

  constructor(retry: () => void) {
    this.#retry = h("button", { type: "button", text: "Try again", onclick: retry });
    this.element = h("div", { class: "trt-lab-figure-status", role: "status" }, this.#text, this.#retry);
    this.show("loading");
  }

  get state(): State {
    return this.element.dataset.state as State;
  }

  /** `text` is needed for `failed` and `kernel`. */
  show(state: State, text = ""): void {
    this.element.dataset.state = state;
    this.#text.textContent = state === "loading" ? "Loading figure…" : text;
    this.#retry.hidden = state !== "failed";
    this.element.hidden = state === "ready";
  }
}
