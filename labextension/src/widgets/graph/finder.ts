// The search box: type, choose with the arrows, Enter jumps.
import type { Hit } from "../../wire.gen";
import { type Channel, isAbort } from "../channel";
import { h } from "../dom";

const WAIT = 120;
let made = 0;

export class Finder {
  readonly #list = h("div", {
    class: "trt-hits",
    role: "listbox",
    id: `trt-hits-${++made}`,
    "aria-label": "Results",
    hidden: true,
  });
  readonly input = h("input", {
    type: "text",
    class: "trt-search",
    placeholder: "Search  ( / )",
    "aria-label": "Search nodes and tensors",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": this.#list.id,
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  readonly element = h("div", { class: "trt-finder" }, this.input, this.#list);
  #hits: Hit[] = [];
  #active = 0;
  /** What `#hits` answers. */
  #answered = "";
  /** Enter was pressed before the results came. */
  #eager = false;
  #asking = new AbortController();

  constructor(
    readonly channel: Channel,
    readonly choose: (hit: Hit) => void,
    readonly leave: () => void,
    signal: AbortSignal,
  ) {
    this.input.addEventListener("input", () => void this.#ask(), { signal });
    this.input.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.input.addEventListener("focus", () => void this.#ask(), { signal });
    this.element.addEventListener(
      "focusout",
      (event) => {
        if (!this.element.contains(event.relatedTarget as Node | null)) this.#close();
      },
      { signal },
    );
  }

  async #ask(): Promise<void> {
    this.#asking.abort();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    const query = this.input.value.trim();
    this.#eager = false;
    if (!query) {
      this.#close();
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, WAIT));
    if (signal.aborted) return;
    try {
      const { data } = await this.channel.request("graph.search", { query, limit: 50 }, { signal });
      this.#hits = data.hits;
      this.#active = 0;
      this.#answered = query;
      const first = data.hits[0];
      if (this.#eager && first) {
        this.#take(first);
        return;
      }
      this.#show(data.hits.length === 0 ? `Nothing matches “${query}”.` : "");
    } catch (error) {
      if (isAbort(error)) return;
      this.#hits = [];
      this.#show(error instanceof Error ? error.message : String(error));
    }
  }

  #close(): void {
    this.#asking.abort();
    this.#list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  #show(note: string): void {
    const options = this.#hits.map((hit, index) => {
      const option = h(
        "div",
        {
          role: "option",
          id: `${this.#list.id}-${index}`,
          class: "trt-hit",
          "aria-selected": index === this.#active ? "true" : "false",
          title: hit.label,
        },
        h("span", { class: "trt-hit-kind", text: hit.what }),
        h("span", { class: "trt-hit-label", text: hit.label }),
        h("span", { class: "trt-faint trt-hit-detail", text: hit.detail }),
      );
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.#take(hit);
      });
      return option;
    });
    this.#list.replaceChildren(
      ...options,
      ...(note ? [h("div", { class: "trt-faint trt-hit", role: "status", text: note })] : []),
    );
    this.#list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    const active = options[this.#active];
    if (active) this.input.setAttribute("aria-activedescendant", active.id);
    active?.scrollIntoView({ block: "nearest" });
  }

  #take(hit: Hit): void {
    this.#close();
    this.choose(hit);
    this.leave();
  }

  #key(event: KeyboardEvent): void {
    event.stopPropagation();
    const hit = this.#hits[this.#active];
    if (event.key === "Escape") {
      this.#close();
      this.input.value = "";
      this.leave();
    } else if (event.key === "Enter") {
      if (hit && this.#answered === this.input.value.trim()) this.#take(hit);
      else this.#eager = true;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#active = Math.max(0, Math.min(this.#hits.length - 1, this.#active + step));
      if (this.#hits.length > 0) this.#show("");
    } else return;
    event.preventDefault();
  }
}
