// What part of the graph is on screen. World units are those of the layout; screen units are CSS pixels.

export interface Point {
  x: number;
  y: number;
}

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

export const MIN_SCALE = 0.002;
export const MAX_SCALE = 3;
const READABLE_SCALE = 0.9;
const MARGIN = 24;
const GLIDE_MS = 160;

export class Camera {
  /** World point at the upper left corner of the screen. */
  x = 0;
  y = 0;
  scale = 1;
  width = 1;
  height = 1;
  #glide = 0;
  /** Whether it is on its way to something that is to be revealed. */
  gliding = false;

  toScreen(point: Point): Point {
    return { x: (point.x - this.x) * this.scale, y: (point.y - this.y) * this.scale };
  }

  toWorld(point: Point): Point {
    return { x: point.x / this.scale + this.x, y: point.y / this.scale + this.y };
  }

  /** The part of the world on screen. */
  get view(): Rect {
    return { x: this.x, y: this.y, w: this.width / this.scale, h: this.height / this.scale };
  }

  pan(dx: number, dy: number): void {
    this.#stop();
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** Zooms by a factor; the world point under `at` stays there. */
  zoomAt(at: Point, factor: number): void {
    this.#stop();
    const world = this.toWorld(at);
    this.scale = Math.min(MAX_SCALE, Math.max(MIN_SCALE, this.scale * factor));
    this.x = world.x - at.x / this.scale;
    this.y = world.y - at.y / this.scale;
  }

  /** Shows all of `bounds`. */
  fit(bounds: Rect): void {
    this.#stop();
    const free = { w: Math.max(1, this.width - 2 * MARGIN), h: Math.max(1, this.height - 2 * MARGIN) };
    this.scale = Math.max(MIN_SCALE, Math.min(1, free.w / Math.max(1, bounds.w), free.h / Math.max(1, bounds.h)));
    this.#centre({ x: bounds.x + bounds.w / 2, y: bounds.y + bounds.h / 2 });
  }

  /** Shows all of `bounds` if its text can be read then, else its beginning, around `start`. */
  open(bounds: Rect, start: Point): void {
    this.fit(bounds);
    if (this.scale >= 0.75 * READABLE_SCALE) return;
    this.scale = READABLE_SCALE;
    this.x = start.x - this.width / 2 / this.scale;
    this.y = bounds.y - MARGIN / this.scale;
  }

  /** Whether all of `box` is on screen, a margin from its borders. */
  shows(box: Rect): boolean {
    const margin = MARGIN / this.scale;
    const { x, y, w, h } = this.view;
    return (
      box.x >= x + margin && box.y >= y + margin && box.x + box.w <= x + w - margin && box.y + box.h <= y + h - margin
    );
  }

  /** Moves until `box` is on screen and large enough to read, unless it is. */
  reveal(box: Rect, moved: () => void): void {
    const scale = Math.max(this.scale, READABLE_SCALE);
    if (!this.gliding && this.scale >= 0.75 * READABLE_SCALE && this.shows(box)) return;
    const view = { w: this.width / scale, h: this.height / scale };
    const target = { x: box.x + box.w / 2 - view.w / 2, y: box.y + box.h / 2 - view.h / 2, scale };
    this.#glideTo(target, moved);
  }

  #centre(point: Point): void {
    this.x = point.x - this.width / 2 / this.scale;
    this.y = point.y - this.height / 2 / this.scale;
  }

  #stop(): void {
    cancelAnimationFrame(this.#glide);
    this.gliding = false;
  }

  #glideTo(target: { x: number; y: number; scale: number }, moved: () => void): void {
    this.#stop();
    const from = { x: this.x, y: this.y, scale: this.scale };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      Object.assign(this, target);
      moved();
      return;
    }
    const start = performance.now();
    const step = (now: number): void => {
      const linear = Math.min(1, Math.max(0, (now - start) / GLIDE_MS));
      const part = 1 - (1 - linear) ** 3;
      this.x = from.x + (target.x - from.x) * part;
      this.y = from.y + (target.y - from.y) * part;
      this.scale = from.scale + (target.scale - from.scale) * part;
      moved();
      if (linear < 1) this.#glide = requestAnimationFrame(step);
      else this.gliding = false;
    };
    this.gliding = true;
    this.#glide = requestAnimationFrame(step);
  }
}
