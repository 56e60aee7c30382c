// The whole graph, small, with the part on screen framed. Click or drag moves the view.
import { h } from "../dom";
import type { Camera, Rect } from "./camera";
import type { Palette } from "./palette";
import type { GraphScene, Paints } from "./scene";

const WIDTH = 132;
const HEIGHT = 112;
const INSET = 5;

export class Minimap {
  readonly element = h("canvas", {
    class: "trt-minimap",
    "aria-hidden": "true",
    title: "Whole graph: click to go there",
  });
  readonly #picture = document.createElement("canvas");
  #bounds: Rect = { x: 0, y: 0, w: 1, h: 1 };
  #scale = 1;
  #offset = { x: 0, y: 0 };

  constructor(
    readonly camera: Camera,
    readonly moved: () => void,
    signal: AbortSignal,
  ) {
    const go = (event: PointerEvent): void => {
      if (event.buttons !== 1) return;
      event.preventDefault();
      const area = this.element.getBoundingClientRect();
      const x = (event.clientX - area.left - this.#offset.x) / this.#scale + this.#bounds.x;
      const y = (event.clientY - area.top - this.#offset.y) / this.#scale + this.#bounds.y;
      const { view } = this.camera;
      this.camera.pan((view.x + view.w / 2 - x) * this.camera.scale, (view.y + view.h / 2 - y) * this.camera.scale);
      this.moved();
    };
    this.element.addEventListener(
      "pointerdown",
      (event) => {
        this.element.setPointerCapture(event.pointerId);
        go(event);
      },
      { signal },
    );
    this.element.addEventListener("pointermove", go, { signal });
  }

  /** Paints the picture anew; `draw` only copies it. */
  update(scene: GraphScene, paints: Paints, palette: Palette, by: string): void {
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.#picture, this.element]) {
      canvas.width = WIDTH * ratio;
      canvas.height = HEIGHT * ratio;
    }
    this.#bounds = scene.bounds;
    const { w, h: height } = scene.bounds;
    this.#scale = Math.min((WIDTH - 2 * INSET) / Math.max(1, w), (HEIGHT - 2 * INSET) / Math.max(1, height));
    this.#offset = { x: (WIDTH - w * this.#scale) / 2, y: (HEIGHT - height * this.#scale) / 2 };
    const context = this.#picture.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    for (const item of scene.items) {
      if (item.kind === "portal" || item.kind === "frame") continue;
      context.fillStyle = palette.box(paints.of(item), by).band;
      context.fillRect(
        (item.x - this.#bounds.x) * this.#scale + this.#offset.x,
        (item.y - this.#bounds.y) * this.#scale + this.#offset.y,
        Math.max(1, item.w * this.#scale),
        Math.max(1, item.h * this.#scale),
      );
    }
  }

  draw(palette: Palette): void {
    const context = this.element.getContext("2d");
    if (!context) return;
    const { view } = this.camera;
    const { x, y, w, h: height } = this.#bounds;
    const all = view.x <= x && view.y <= y && view.x + view.w >= x + w && view.y + view.h >= y + height;
    this.element.hidden = all;
    if (all) return;
    const ratio = devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.element.width, this.element.height);
    context.drawImage(this.#picture, 0, 0);
    context.scale(ratio, ratio);
    const left = Math.max(1, (view.x - x) * this.#scale + this.#offset.x);
    const top = Math.max(1, (view.y - y) * this.#scale + this.#offset.y);
    const right = Math.min(WIDTH - 1, (view.x + view.w - x) * this.#scale + this.#offset.x);
    const bottom = Math.min(HEIGHT - 1, (view.y + view.h - y) * this.#scale + this.#offset.y);
    context.strokeStyle = palette.theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, Math.max(3, right - left), Math.max(3, bottom - top));
  }
}
