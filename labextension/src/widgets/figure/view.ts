// One view of a FigureWidget. The other end is trt_lab/widgets/figure.py.
import { type Channel, isAbort, RefusedError } from "../channel";
import { h } from "../dom";
import { readTheme, watchTheme } from "../theme";
import {
  type BokehDocument,
  type BokehViews,
  type Buffers,
  buffersOf,
  type DocumentEvent,
  detachBuffers,
  loadBokeh,
} from "./bokeh";
import { listenToKeys } from "./keys";
import { Pace } from "./pace";
import { Status } from "./status";
import { paint, type ThemeTable } from "./theme";

/** What `figure.item` answers; `doc` is null while the widget has no figure. */
interface Item {
  doc: unknown;
  bokeh: string;
  generation: number;
  revision: number;
  themes: ThemeTable;
}

/** What `figure.patched` tells; `origin` is the view that the change came from, "" if it was made in Python. */
interface Patch {
  generation: number;
  revision: number;
  origin: string;
  events: unknown[];
}

/** A figure on the page. */
interface Drawn {
  document: BokehDocument;
  host: HTMLElement;
  item: Item;
  remove(): void;
}

export class FigureView {
  readonly #channel: Channel;
  readonly #element: HTMLElement;
  readonly #signal: AbortSignal;
  readonly #status: Status;
  readonly #name = crypto.randomUUID().slice(0, 8);
  #drawn: Drawn | null = null;
  #loading: AbortController | null = null;
  #early: { patch: Patch; buffers: Buffers }[] = [];
  #dark = false;
  #live = true;

  constructor(channel: Channel, element: HTMLElement, signal: AbortSignal) {
    this.#channel = channel;
    this.#element = element;
    this.#signal = signal;
    this.#status = new Status(() => void this.load());
    element.classList.add("trt-lab-figure");
    element.append(this.#status.element);
    channel.on("figure.changed", () => void this.load());
    channel.on("figure.patched", ({ patch }, arrays) => this.#receive(patch as Patch, buffersOf(arrays)));
    watchTheme(() => this.#recolour(), signal);
    signal.addEventListener("abort", () => this.#drawn?.remove());
  }

  /** Says whether the kernel is there ("") or why not. The figure shown stays. */
  tell(kernel: string): void {
    const back = !this.#live && kernel === "";
    this.#live = kernel === "";
    if (!this.#live) this.#status.show("kernel", kernel);
    else if (back) void this.load();
  }

  /** Asks for the figure and shows it; the one shown so far stays until then. A later call overtakes an earlier one. */
  async load(): Promise<void> {
    this.#loading?.abort();
    const loading = new AbortController();
    const signal = AbortSignal.any([loading.signal, this.#signal]);
    this.#loading = loading;
    this.#early = [];
    if (!this.#drawn && this.#live) this.#status.show("loading");
    try {
      const { data, arrays } = await this.#channel.request("figure.item", {}, { signal, timeout: null });
      const item = data.item as Item;
      const drawn = item.doc === null ? null : await this.#draw(item, buffersOf(arrays), signal);
      this.#replace(drawn);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      console.error("trt-lab: figure", error);
      this.#drawn?.remove();
      this.#drawn = null;
      this.#status.show("failed", `This figure could not be drawn: ${messageOf(error)}`);
    } finally {
      if (this.#loading === loading) this.#loading = null;
    }
  }

  async #draw(item: Item, buffers: Buffers, signal: AbortSignal): Promise<Drawn> {
    const bokeh = await loadBokeh(item.bokeh, this.#channel);
    signal.throwIfAborted();
    const figure = bokeh.Document.from_json(item.doc, [], buffers);
    this.#dark = readTheme(this.#element).dark;
    paint(figure, item.themes, this.#dark);
    // Bokeh measures what it is put into, so the new figure is in the page, unseen, while the old one is still shown.
    const host = h("div", { class: "trt-lab-figure-host", "data-hidden": true });
    this.#element.append(host);
    let views: BokehViews | null = null;
    const remove = (): void => {
      views?.clear();
      host.remove();
    };
    try {
      views = await bokeh.embed.add_document_standalone(figure, host);
      signal.throwIfAborted();
    } catch (error) {
      remove();
      throw error;
    }
    const forget = this.#forward(figure, item.generation);
    const unkey = listenToKeys(figure, host);
    return {
      document: figure,
      host,
      item,
      remove: () => {
        forget();
        unkey();
        remove();
      },
    };
  }

  #replace(drawn: Drawn | null): void {
    this.#drawn?.remove();
    this.#drawn = drawn;
    if (this.#live) this.#status.show("ready");
    if (!drawn) return;
    drawn.host.removeAttribute("data-hidden");
    for (const { patch, buffers } of this.#early.splice(0)) this.#apply(patch, buffers);
    this.#recolour();
  }

  /** Sends what the user changes to Python; returns what ends it. */
  #forward(figure: BokehDocument, generation: number): () => void {
    const pace = new Pace((events) => {
      const { patch, arrays } = detachBuffers(figure.create_json_patch(events));
      const fields = { patch: { ...(patch as object), generation, view: this.#name } };
      this.#channel.request("figure.patch", fields, { arrays, timeout: null }).then(
        () => this.#status.state === "failed" && this.#status.show("ready"),
        (error: unknown) => error instanceof RefusedError && this.#status.show("failed", error.message),
      );
    });
    const listener = (event: DocumentEvent): void => {
      if (event.sync && this.#live) pace.add(event);
    };
    figure.on_change(listener);
    return () => {
      pace.clear();
      figure.remove_on_change(listener);
    };
  }

  #receive(patch: Patch, buffers: Buffers): void {
    if (this.#loading) this.#early.push({ patch, buffers });
    this.#apply(patch, buffers);
  }

  /** Applies a change, unless it is this view's own, of another figure, or already in what was sent. */
  #apply(patch: Patch, buffers: Buffers): void {
    const drawn = this.#drawn;
    if (!drawn || patch.origin === this.#name) return;
    if (patch.generation !== drawn.item.generation || patch.revision <= drawn.item.revision) return;
    drawn.item.revision = patch.revision;
    drawn.document.apply_json_patch({ events: patch.events }, buffers);
    drawn.host.dataset.revision = String(patch.revision);
  }

  #recolour(): void {
    const { dark } = readTheme(this.#element);
    if (!this.#drawn || dark === this.#dark) return;
    this.#dark = dark;
    paint(this.#drawn.document, this.#drawn.item.themes, dark);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
