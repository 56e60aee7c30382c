// The node card: what a box is, what it reads and gives, and what can be done with it.

import type { Card, CardTensor } from "../../wire.gen";
import { h } from "../dom";
import { markLook } from "../marks";

export interface CardActions {
  probe(tensor: string, on: boolean): Promise<void>;
  keep(node: string, on: boolean): Promise<void>;
  goTo(id: string): void;
  openGraph(graph: string): void;
  chooseTensor(tensor: string): void;
  close(): void;
}

export class CardPanel {
  readonly element = h("section", { class: "trt-card", "aria-label": "Selected item", hidden: true });
  readonly #actions: CardActions;

  constructor(actions: CardActions) {
    this.#actions = actions;
  }

  get open(): boolean {
    return !this.element.hidden;
  }

  hide(): void {
    this.element.hidden = true;
    this.element.replaceChildren();
  }

  /** Shows a card. The focus stays on the button that had it, if the card still has that button. */
  show(card: Card): void {
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement?.getAttribute("data-action")
      : null;
    const scrolled = this.element.scrollTop;
    this.element.replaceChildren(this.#head(card), ...this.#body(card));
    this.element.hidden = false;
    this.element.scrollTop = scrolled;
    if (focused) this.element.querySelector<HTMLElement>(`[data-action="${CSS.escape(focused)}"]`)?.focus();
  }

  /** A line in place of the card: what went wrong with it. */
  fail(text: string): void {
    this.element.replaceChildren(
      h("div", { class: "trt-card-head" }, h("p", { class: "trt-bad", role: "alert", text }), this.#closeButton()),
    );
    this.element.hidden = false;
  }

  #closeButton(): HTMLElement {
    const close = (): void => this.#actions.close();
    return h("button", {
      class: "trt-icon",
      type: "button",
      title: "Close (Esc)",
      "aria-label": "Close card",
      text: "×",
      onclick: close,
    });
  }

  #head(card: Card): HTMLElement {
    const keep =
      card.can_keep &&
      this.#toggle(card.kept, "Keep FP32", "Kept in FP32", `keep:${card.id}`, (on) => this.#actions.keep(card.id, on));
    const name = h(
      "div",
      { class: "trt-card-name" },
      h("h3", { text: card.title }),
      h("span", { class: "trt-faint", text: card.subtitle }),
    );
    if (card.made_up) {
      name.append(
        h("span", {
          class: "trt-chip",
          text: "id made up",
          title: "The node has no name in the file; this id stands for it and is never stored.",
        }),
      );
    }
    return h("div", { class: "trt-card-head" }, name, keep, this.#closeButton());
  }

  #body(card: Card): HTMLElement[] {
    const parts: HTMLElement[] = [];
    if (card.outputs.length > 0) parts.push(this.#tensors(card.what === "tensor" ? "Tensor" : "Outputs", card.outputs));
    if (card.inputs.length > 0) parts.push(this.#tensors("Inputs", card.inputs));
    if (card.facts.length > 0) parts.push(this.#facts(card));
    if (card.layers.length > 0) {
      const lines = card.layers.map((text) => h("li", { text, title: text }));
      parts.push(
        h(
          "div",
          { class: "trt-part" },
          h("h4", { text: card.layers.length > 1 ? "Engine layers" : "Engine layer" }),
          h("ul", { class: "trt-lines" }, ...lines),
        ),
      );
    }
    if (card.nested.length > 0) {
      const links = card.nested.map(({ graph, label }) =>
        h("button", {
          class: "trt-link",
          type: "button",
          text: `Open ${label}`,
          onclick: () => this.#actions.openGraph(graph),
        }),
      );
      parts.push(h("div", { class: "trt-part" }, h("h4", { text: "Nested graphs" }), ...links));
    }
    return parts;
  }

  #facts(card: Card): HTMLElement {
    const rows = card.facts.flatMap(({ name, value }) => [
      h("dt", { text: name, title: name }),
      h("dd", { text: value, title: value }),
    ]);
    return h(
      "div",
      { class: "trt-part" },
      h("h4", { text: card.what === "node" ? "Attributes" : "Facts" }),
      h("dl", { class: "trt-facts" }, ...rows),
    );
  }

  #tensors(heading: string, tensors: CardTensor[]): HTMLElement {
    return h(
      "div",
      { class: "trt-part" },
      h("h4", { text: heading }),
      ...tensors.map((tensor) => this.#tensor(tensor)),
    );
  }

  #tensor(tensor: CardTensor): HTMLElement {
    const mark = markLook(tensor.verdict);
    const name = h("button", {
      class: "trt-tensor-name",
      type: "button",
      text: tensor.name,
      title: `Select ${tensor.name}`,
      onclick: () => this.#actions.chooseTensor(tensor.id),
    });
    const ends = tensor.other_ends.map((id) =>
      h("button", {
        class: "trt-link",
        type: "button",
        text: id,
        title: `Go to ${id}`,
        onclick: () => this.#actions.goTo(id),
      }),
    );
    const roles: Partial<Record<CardTensor["role"], string>> = {
      initializer: "outer",
      input: "model input",
      output: "model output",
    };
    const role = roles[tensor.role];
    return h(
      "div",
      { class: "trt-tensor" },
      h("div", { class: "trt-tensor-line" }, name, this.#probe(tensor)),
      h(
        "div",
        { class: "trt-tensor-line trt-faint" },
        h("span", { class: "trt-type", text: tensor.type }),
        tensor.declared !== null &&
          h("span", {
            class: "trt-chip trt-warn",
            text: `file says ${tensor.declared}`,
            title: "The shape stored in the file contradicts the inferred one.",
          }),
        role ? h("span", { text: role }) : null,
        mark &&
          h("span", {
            class: `trt-${mark.colour}`,
            text: `${mark.sign} ${mark.word}${tensor.figure ? ` · ${tensor.figure}` : ""}`,
          }),
        ...ends,
      ),
      tensor.safe === null ? null : this.#sight(tensor.safe, tensor.sight),
    );
  }

  /** Whether looking at a tensor changes the engine. */
  #sight(safe: boolean, text: string): HTMLElement {
    const sign = h("span", { class: safe ? "trt-safe-sign" : "trt-unsafe-sign", "aria-hidden": "true" });
    return h("div", { class: "trt-sight", "data-safe": String(safe) }, sign, h("span", { text }));
  }

  #probe(tensor: CardTensor): HTMLElement | null {
    if (!tensor.can_probe) return null;
    if (tensor.refusal)
      return h("span", { class: "trt-faint trt-refusal", text: tensor.refusal, title: tensor.refusal });
    if (tensor.role === "initializer") return null;
    return this.#toggle(tensor.probed, "Probe", "Probed", `probe:${tensor.id}`, (on) =>
      this.#actions.probe(tensor.id, on),
    );
  }

  #toggle(
    on: boolean,
    offText: string,
    onText: string,
    action: string,
    change: (on: boolean) => Promise<void>,
  ): HTMLButtonElement {
    const press = async (): Promise<void> => {
      button.disabled = true;
      try {
        await change(!on);
      } finally {
        button.disabled = false;
      }
    };
    const button = h("button", {
      class: `trt-button${on ? " trt-on" : ""}`,
      type: "button",
      "aria-pressed": on ? "true" : "false",
      "data-action": action,
      title: on ? "Press to take it back" : undefined,
      text: on ? `✓ ${onText}` : offText,
      onclick: () => void press(),
    });
    return button;
  }
}
