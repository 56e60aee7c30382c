// One view of the graph widget: what is shown, what is chosen, and what to ask Python for.
import type { ColourBy, Hit } from "../../wire.gen";
import { Channel, isAbort } from "../channel";
import { h } from "../dom";
import { type LiveModel, watchKernel } from "../kernel";
import { readTheme, watchTheme } from "../theme";
import { ColourChoice, Crumbs, Legend, toolButtons, UndoButton } from "./bar";
import type { Point } from "./camera";
import { CardPanel } from "./card";
import { Finder } from "./finder";
import { describe, Outline } from "./outline";
import { Palette } from "./palette";
import { GraphScene, type Item, Paints } from "./scene";
import { Stage } from "./stage";

/** The traits of `trt_lab.widgets.graph.GraphWidget`. */
export interface Traits {
  selected: string;
  selected_tensor: string;
  related: string[];
  probes: string[];
  kept: string[];
  colour_by: ColourBy;
  undo: string;
  empty: string;
}

export interface GraphModel extends LiveModel {
  get<K extends keyof Traits>(name: K): Traits[K];
  set<K extends keyof Traits>(name: K, value: Traits[K]): void;
  save_changes(): void;
  on(name: string, callback: (...values: never[]) => void): void;
  off(name: string, callback: (...values: never[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[] | ArrayBufferView[]): void;
}

type State = "loading" | "ready" | "empty" | "error";

export class GraphView {
  readonly element: HTMLElement;
  readonly #channel: Channel;
  readonly #stage: Stage;
  readonly #outline: Outline;
  readonly #card: CardPanel;
  readonly #crumbs: Crumbs;
  readonly #legend = new Legend();
  readonly #finder: Finder;
  readonly #choice: ColourChoice;
  readonly #undo = new UndoButton(() => void this.#takeBack());
  readonly #notice = h("div", { class: "trt-notice", role: "status" });
  readonly #kernel = h("div", { class: "trt-kernel", role: "alert", hidden: true });
  #scene: GraphScene | null = null;
  #selected = "";
  /** What a double click opens, even if the card has moved the graph between its presses. */
  #pressed: Item | null = null;
  #loading = new AbortController();
  #colouring = new AbortController();
  #carding = new AbortController();

  constructor(
    readonly model: GraphModel,
    readonly signal: AbortSignal,
  ) {
    this.#channel = new Channel(model, signal);
    this.#stage = new Stage(
      {
        choose: (at) => this.#chooseAt(at),
        activate: () => this.#activate(this.#pressed),
        key: (event) => this.#key(event),
      },
      signal,
    );
    this.#outline = new Outline(this.#stage.box);
    this.#card = new CardPanel({
      probe: (tensor, on) => this.#act(() => this.#channel.request("graph.probe", { tensor, on })),
      keep: (node, on) => this.#act(() => this.#channel.request("graph.keep", { node, on })),
      goTo: (id) => void this.goTo(id),
      openGraph: (graph) => void this.#load(graph, null),
      chooseTensor: (tensor) => this.#setTraits({ selected_tensor: tensor }),
      close: () => this.#closeCard(),
    });
    this.#crumbs = new Crumbs(
      (graph) => void this.#load(graph, null),
      (scope) => void this.goTo(scope),
    );
    this.#finder = new Finder(
      this.#channel,
      (hit) => this.#found(hit),
      () => this.#stage.box.focus(),
      signal,
    );
    this.#choice = new ColourChoice((by) => this.#setTraits({ colour_by: by }));
    this.element = this.#assemble();
    this.#listen();
    void this.#load("", null);
  }

  #assemble(): HTMLElement {
    const zoom = toolButtons(
      this.#undo.element,
      (factor) => this.#stage.zoom(factor),
      () => this.#stage.fit(),
    );
    this.#stage.element.append(this.#notice, this.#kernel);
    return h(
      "div",
      { class: "trt-graph", "data-lm-suppress-shortcuts": "true", "data-state": "loading" },
      h(
        "div",
        { class: "trt-bar", role: "toolbar", "aria-label": "Graph tools" },
        this.#finder.element,
        this.#choice.element,
        zoom,
      ),
      this.#crumbs.element,
      this.#stage.element,
      this.#legend.element,
      this.#card.element,
      this.#outline.live,
    );
  }

  #listen(): void {
    const { model, signal } = this;
    const on = (name: string, react: () => void): void => {
      model.on(name, react);
      signal.addEventListener("abort", () => model.off(name, react));
    };
    on("change:selected", () => {
      if (model.get("selected") !== this.#selected) void this.goTo(model.get("selected"));
    });
    on("change:selected_tensor", () => this.#repaint());
    on("change:related", () => this.#relate());
    on("change:undo", () => this.#undo.show(model.get("undo")));
    this.#undo.show(model.get("undo"));
    on("change:colour_by", () => void this.#colour());
    on("change:empty", () => void this.#load("", null));
    this.#channel.on("graph.changed", () => void this.#load("", null));
    this.#channel.on("graph.colours_changed", () => {
      void this.#colour();
      if (this.#card.open) void this.#showCard(this.#selected);
    });
    watchKernel(model, this.#channel, signal, (text) => {
      this.#kernel.textContent = text;
      this.#kernel.hidden = text === "";
    });
    watchTheme(() => this.#retheme(), signal);
  }

  /** Call once the element is in the page. */
  attach(): void {
    this.#retheme();
    this.#stage.attach();
    // Inside other widgets the element comes into the page later, and only there it has a theme.
    const seen = new ResizeObserver(() => {
      if (!this.element.isConnected || this.element.clientWidth === 0) return;
      seen.disconnect();
      this.#retheme();
    });
    seen.observe(this.element);
    this.signal.addEventListener("abort", () => seen.disconnect());
  }

  /** Where a node, scope or tensor is drawn, in client coordinates of its middle; null if it is not in view. */
  locate(id: string): Point | null {
    const item = this.#scene?.find(id);
    return item ? this.#stage.locate(item) : null;
  }

  /** Shows and selects a node, scope or tensor, wherever it is; "" selects nothing. */
  async goTo(id: string): Promise<void> {
    if (id === "") {
      this.#select(null);
      return;
    }
    const here = this.#scene?.find(id);
    if (here) {
      this.#select(here);
      this.#stage.reveal(here);
      return;
    }
    this.#selected = id;
    try {
      const { data } = await this.#channel.request("graph.place", { item: id }, { signal: this.signal });
      if (this.#selected !== id) return;
      const scene = this.#scene?.data.graph === data.graph ? this.#scene : null;
      if (!scene?.find(data.item)) await this.#load(data.graph, scene?.data.expanded ?? null, { open: data.open });
      const item = this.#scene?.find(data.item);
      if (!item) return;
      this.#select(item, id);
      this.#stage.reveal(item);
    } catch (error) {
      if (!isAbort(error)) this.#card.fail(textOf(error));
    }
  }

  // --- asking Python -----------------------------------------------------------------------

  /** @param how `open` scopes besides; the `anchor` item keeps its place on screen. */
  async #load(graph: string, expanded: string[] | null, how: { open?: string[]; anchor?: string } = {}): Promise<void> {
    const { open = [], anchor } = how;
    this.#loading.abort();
    const empty = this.model.get("empty");
    if (empty) {
      this.#scene = null;
      this.#stage.clear();
      this.#card.hide();
      this.#crumbs.element.replaceChildren();
      this.#legend.element.replaceChildren();
      this.#show("empty", empty);
      return;
    }
    const stop = new AbortController();
    this.#loading = stop;
    this.#show("loading", "Laying out the graph…");
    const before = anchor === undefined ? null : this.#scene?.find(anchor);
    const place = before ? this.#stage.camera.toScreen({ x: before.x, y: before.y }) : null;
    try {
      const signal = AbortSignal.any([stop.signal, this.signal]);
      const { data, arrays } = await this.#channel.request(
        "graph.scene",
        { graph, expanded, open },
        { signal, timeout: null },
      );
      const scene = new GraphScene(data, arrays);
      const sameGraph = this.#scene?.data.graph === data.graph && this.#scene.data.title === data.title;
      this.#scene = scene;
      const after = anchor === undefined ? undefined : scene.find(anchor);
      this.#stage.show(scene, after && place ? { item: after, at: place } : null, sameGraph && anchor !== undefined);
      this.#show(
        scene.items.length === 0 ? "empty" : "ready",
        scene.items.length === 0 ? "This graph holds no nodes." : "",
      );
      this.#relate();
      const selected = this.model.get("selected");
      this.#select((selected && scene.find(selected)) || null, selected, false);
      const asked = anchor !== undefined || open.length > 0 || graph !== "";
      if (selected && !scene.find(selected) && !asked) void this.goTo(selected);
      await this.#colour();
    } catch (error) {
      if (isAbort(error)) return;
      this.#show("error", textOf(error));
    }
  }

  async #colour(): Promise<void> {
    const scene = this.#scene;
    if (!scene) return;
    this.#colouring.abort();
    const stop = new AbortController();
    this.#colouring = stop;
    const by = this.model.get("colour_by");
    this.#choice.set(by);
    const { graph, expanded } = scene.data;
    try {
      const { data, arrays } = await this.#channel.request(
        "graph.colours",
        { graph, expanded, by },
        { signal: stop.signal },
      );
      if (this.#scene !== scene) return;
      this.#stage.paint(new Paints(data, arrays), by);
      this.#legend.show(data, this.#stage.palette);
      this.#outline.update(scene, this.#stage.paints, this.#active);
    } catch (error) {
      if (!isAbort(error)) this.#outline.say(textOf(error));
    }
  }

  async #showCard(id: string): Promise<void> {
    this.#carding.abort();
    const stop = new AbortController();
    this.#carding = stop;
    try {
      const { data } = await this.#channel.request("graph.card", { item: id }, { signal: stop.signal });
      this.#card.show(data);
    } catch (error) {
      if (!isAbort(error)) this.#card.fail(textOf(error));
    }
  }

  async #act(request: () => Promise<unknown>): Promise<void> {
    try {
      await request();
      await this.#showCard(this.#selected);
    } catch (error) {
      if (!isAbort(error)) this.#card.fail(textOf(error));
    }
  }

  async #takeBack(): Promise<void> {
    const what = this.model.get("undo");
    if (!what) {
      this.#outline.say("Nothing to undo.");
      return;
    }
    try {
      await this.#channel.request("graph.undo", {});
      this.#outline.say(`Undone: ${what}`);
      if (this.#card.open) await this.#showCard(this.#selected);
    } catch (error) {
      if (!isAbort(error)) this.#card.fail(textOf(error));
    }
  }

  // --- choosing ----------------------------------------------------------------------------

  get #active(): Item | null {
    return this.#scene?.find(this.model.get("selected")) ?? this.#scene?.find(this.#selected) ?? null;
  }

  /** @param id What the trait says, where `item` only stands for it (a closed scope). */
  #select(item: Item | null, id = item?.id ?? "", tell = true): void {
    this.#selected = id;
    const pill = item !== null && (item.kind === "input" || item.kind === "output" || item.kind === "outer");
    if (tell) this.#setTraits({ selected: id, ...(pill ? { selected_tensor: id } : {}) });
    this.#stage.select(item?.id ?? "", this.model.get("selected_tensor"));
    const scene = this.#scene;
    if (scene) {
      this.#outline.update(scene, this.#stage.paints, item);
      this.#crumbs.show(scene.data, scopeOf(item));
    }
    if (item) {
      if (tell) this.#outline.say(describe(item, this.#stage.paints));
      void this.#showCard(id);
    } else this.#card.hide();
  }

  #setTraits(values: Partial<Traits>): void {
    let changed = false;
    for (const [name, value] of Object.entries(values) as [keyof Traits, never][]) {
      if (this.model.get(name) === value) continue;
      this.model.set(name, value);
      changed = true;
    }
    if (changed) this.model.save_changes();
  }

  #itemAt(at: Point): Item | null {
    return this.#scene?.hit(this.#stage.camera.toWorld(at)) ?? null;
  }

  #chooseAt(at: Point): void {
    const item = this.#itemAt(at);
    this.#pressed = item;
    if (item?.kind === "portal" && item.peer) {
      this.#select(item.peer);
      this.#stage.reveal(item.peer);
      return;
    }
    const edge = item ? null : this.#scene?.hitEdge(this.#stage.camera.toWorld(at), 6 / this.#stage.camera.scale);
    if (!edge) {
      this.#select(item);
      return;
    }
    this.#setTraits({ selected_tensor: edge.tensor });
    this.#select(edge.from.kind === "node" ? edge.from : (this.#scene?.find(edge.tensor) ?? edge.from));
  }

  /** Opens or closes a scope, enters a nested graph, jumps through a portal. */
  #activate(item: Item | null): void {
    const scene = this.#scene;
    if (!scene || !item) return;
    const { graph, expanded, nested } = scene.data;
    const inner = nested[item.id]?.[0];
    if (item.kind === "scope") void this.#load(graph, [...expanded, item.id], { anchor: item.id });
    else if (item.kind === "frame") {
      const below = `${item.id}/`;
      void this.#load(
        graph,
        expanded.filter((path) => path !== item.id && !path.startsWith(below)),
        { anchor: item.id },
      );
    } else if (item.kind === "portal" && item.peer) {
      this.#select(item.peer);
      this.#stage.reveal(item.peer);
    } else if (item.kind === "node" && inner !== undefined) void this.#load(inner, null);
    else this.#card.element.querySelector<HTMLElement>("button")?.focus();
  }

  #found(hit: Hit): void {
    if (hit.what === "tensor") this.#setTraits({ selected_tensor: hit.id });
    void this.goTo(hit.id);
  }

  #closeCard(): void {
    this.#card.hide();
    this.#stage.box.focus();
  }

  #key(event: KeyboardEvent): boolean {
    const item = this.#active;
    switch (event.key) {
      case "ArrowUp":
      case "ArrowDown":
      case "ArrowLeft":
      case "ArrowRight": {
        const next = item
          ? this.#scene?.step(item, event.key)
          : this.#scene?.items.find((other) => other.kind !== "frame");
        if (next) {
          const target = next.kind === "portal" && next.peer ? next.peer : next;
          this.#select(target);
          this.#stage.reveal(target);
        }
        return true;
      }
      case "Enter":
        this.#activate(item);
        return true;
      case "z":
        if (!event.ctrlKey && !event.metaKey) return false;
        void this.#takeBack();
        return true;
      case "p":
        this.#pressOnCard("probe:");
        return true;
      case "k":
        this.#pressOnCard("keep:");
        return true;
      case "/":
        this.#finder.input.focus();
        return true;
      case "Escape":
        if (this.#card.open) this.#card.hide();
        else this.#select(null);
        return true;
      case "Home":
        this.#stage.fit();
        return true;
      case "+":
      case "=":
        this.#stage.zoom(1.3);
        return true;
      case "-":
        this.#stage.zoom(1 / 1.3);
        return true;
      case "Backspace": {
        const crumbs = this.#scene?.data.crumbs ?? [];
        const above = crumbs.at(-2);
        if (above) void this.#load(above.graph, null);
        return true;
      }
      default:
        return false;
    }
  }

  /** Keys do what the card's buttons do: the chosen tensor's, else the first. */
  #pressOnCard(action: string): void {
    const chosen = `${action}${this.model.get("selected_tensor")}`;
    const buttons = [...this.#card.element.querySelectorAll<HTMLButtonElement>("button[data-action]")];
    const ours = buttons.filter((button) => button.dataset.action?.startsWith(action));
    const button = ours.find((other) => other.dataset.action === chosen) ?? ours[0];
    if (button) button.click();
    else this.#outline.say(action === "probe:" ? "Nothing to probe here." : "Nothing to keep in FP32 here.");
  }

  // --- showing -----------------------------------------------------------------------------

  #repaint(): void {
    this.#stage.select(this.#active?.id ?? "", this.model.get("selected_tensor"));
  }

  /** Rings around the nodes that share a layer with the selected one, or around the closed scopes that they are in. */
  #relate(): void {
    const scene = this.#scene;
    const boxes = this.model.get("related").map((id) => scene?.findAround(id)?.id ?? "");
    this.#stage.relate(new Set(boxes.filter(Boolean)));
  }

  #retheme(): void {
    const theme = readTheme(this.element);
    this.element.classList.toggle("trt-dark", theme.dark);
    this.#stage.theme(new Palette(theme));
    if (this.#stage.paints.data) this.#legend.show(this.#stage.paints.data, this.#stage.palette);
  }

  #show(state: State, text: string): void {
    this.element.dataset.state = state;
    this.element.dataset.items = String(this.#scene?.items.length ?? 0);
    this.#notice.textContent = text;
    this.#notice.className = `trt-notice trt-notice-${state}`;
    this.#notice.hidden = text === "";
  }
}

function scopeOf(item: Item | null): string {
  if (!item) return "";
  if (item.kind === "frame" || item.kind === "scope") return item.id;
  return item.parent?.id ?? "";
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
