// The canvas with its camera: draws when something changed, and shows what the pointer is on.
import { h } from "../dom";
import { readTheme } from "../theme";
import { Camera, type Point } from "./camera";
import { drawScene } from "./draw";
import { listen } from "./input";
import { Minimap } from "./minimap";
import { describe } from "./outline";
import { Palette } from "./palette";
import { type GraphScene, type Item, Paints } from "./scene";

export interface StageActions {
  choose(at: Point): void;
  activate(): void;
  key(event: KeyboardEvent): boolean;
}

/** Where an item stays on screen while the scene around it changes. */
export interface Anchor {
  item: Item;
  at: Point;
}

const KEYS =
  "Arrow keys follow edges, Enter opens, p probes, k keeps in FP32, Ctrl+Z undoes, / searches, Home shows all, Escape closes.";

export class Stage {
  readonly camera = new Camera();
  /** Has the focus; to a screen reader it is a list box of what is drawn. */
  readonly box = h("div", { class: "trt-stage", tabindex: "0", role: "listbox", "aria-label": `Graph. ${KEYS}` });
  readonly element = h("div", { class: "trt-viewport" }, this.box);
  readonly #canvas = h("canvas", { class: "trt-canvas", "aria-hidden": "true" });
  readonly #tip = h("div", { class: "trt-tip", hidden: true });
  readonly #minimap: Minimap;
  palette: Palette;
  paints = new Paints();
  #scene: GraphScene | null = null;
  #by = "type";
  #selected = "";
  #selectedTensor = "";
  #related: ReadonlySet<string> = new Set();
  #hover: Item | null = null;
  #frame = 0;
  #opened = false;

  constructor(
    actions: StageActions,
    readonly signal: AbortSignal,
  ) {
    this.palette = new Palette(readTheme(document.documentElement));
    this.#minimap = new Minimap(this.camera, () => this.#draw(), signal);
    this.box.append(this.#canvas);
    this.element.append(this.#minimap.element, this.#tip);
    listen(this.box, this.camera, { ...actions, hover: (at) => this.#point(at), moved: () => this.#draw() }, signal);
  }

  /** Call once the element is in the page. */
  attach(): void {
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(this.element);
    this.signal.addEventListener("abort", () => {
      observer.disconnect();
      cancelAnimationFrame(this.#frame);
    });
    this.#resize();
  }

  show(scene: GraphScene, anchor: Anchor | null, keep: boolean): void {
    this.#scene = scene;
    this.paints = new Paints();
    this.#point(null);
    if (anchor) {
      this.camera.x = anchor.item.x - anchor.at.x / this.camera.scale;
      this.camera.y = anchor.item.y - anchor.at.y / this.camera.scale;
    } else if (!keep) {
      this.#opened = false;
      this.#open();
    }
    this.#picture();
    this.#draw();
  }

  clear(): void {
    this.#scene = null;
    this.#minimap.element.hidden = true;
    this.#draw();
  }

  paint(paints: Paints, by: string): void {
    this.paints = paints;
    this.#by = by;
    this.#picture();
    this.#draw();
  }

  theme(palette: Palette): void {
    this.palette = palette;
    this.#picture();
    this.#draw();
  }

  select(item: string, tensor: string): void {
    this.#selected = item;
    this.#selectedTensor = tensor;
    this.#draw();
  }

  /** Rings around these items. */
  relate(items: ReadonlySet<string>): void {
    this.#related = items;
    this.element.dataset.related = String(items.size);
    this.#draw();
  }

  reveal(item: Item): void {
    const box = item.kind === "frame" ? { ...item, w: Math.min(item.w, 200), h: 40 } : item;
    this.camera.reveal(box, () => this.#draw());
  }

  fit(): void {
    if (this.#scene) this.camera.fit(this.#scene.bounds);
    this.#draw();
  }

  zoom(factor: number): void {
    this.camera.zoomAt({ x: this.camera.width / 2, y: this.camera.height / 2 }, factor);
    this.#draw();
  }

  /** Client coordinates of the middle of an item (of the header of a frame); null if that is out of view. */
  locate(item: Item): Point | null {
    const y = item.kind === "frame" ? item.y + 12 : item.y + item.h / 2;
    const at = this.camera.toScreen({ x: item.x + item.w / 2, y });
    if (at.x < 0 || at.y < 0 || at.x > this.camera.width || at.y > this.camera.height) return null;
    const box = this.#canvas.getBoundingClientRect();
    return { x: box.left + at.x, y: box.top + at.y };
  }

  #open(): void {
    if (!this.#scene || this.#opened || this.camera.width <= 1) return;
    const { bounds, items } = this.#scene;
    const top = items.reduce<Item | null>(
      (best, item) => (item.kind !== "frame" && (!best || item.y < best.y) ? item : best),
      null,
    );
    this.camera.open(bounds, { x: (top?.x ?? 0) + (top?.w ?? 0) / 2, y: bounds.y });
    this.#opened = true;
  }

  #resize(): void {
    const selected = this.#scene?.find(this.#selected);
    const shown = selected !== undefined && this.camera.shows(selected);
    this.camera.width = Math.max(1, this.element.clientWidth);
    this.camera.height = Math.max(1, this.element.clientHeight);
    this.#open();
    // The card that opens takes room, also while the selected item is still being brought into view.
    if (selected && (shown || this.camera.gliding)) this.reveal(selected);
    this.#draw();
  }

  #picture(): void {
    if (this.#scene) this.#minimap.update(this.#scene, this.paints, this.palette, this.#by);
  }

  #point(at: Point | null): void {
    const item = at && this.#scene ? this.#scene.hit(this.camera.toWorld(at)) : null;
    if (at && item) {
      this.#tip.textContent = describe(item, this.paints);
      this.#tip.style.left = `${Math.min(at.x + 14, this.camera.width - 60)}px`;
      this.#tip.style.top = `${at.y + 18}px`;
      this.#tip.style.maxWidth = `${Math.max(120, this.camera.width - at.x - 24)}px`;
    }
    this.#tip.hidden = !item;
    if (item === this.#hover) return;
    this.#hover = item;
    this.box.classList.toggle("trt-on-item", item !== null);
    this.#draw();
  }

  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paintNow());
  }

  #paintNow(): void {
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(this.camera.width * ratio), Math.round(this.camera.height * ratio)];
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.palette.theme.page;
    context.fillRect(0, 0, this.camera.width, this.camera.height);
    if (!this.#scene) return;
    drawScene(context, this.#scene, this.camera, {
      palette: this.palette,
      paints: this.paints,
      by: this.#by,
      selected: this.#selected,
      selectedTensor: this.#selectedTensor,
      related: this.#related,
      hover: this.#hover,
    });
    this.#minimap.draw(this.palette);
    this.element.dataset.painted = String(this.#scene.items.length);
  }
}
