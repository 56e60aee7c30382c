// One graph as boxes and edges, with an index of what lies where and of who follows whom.
import type { ItemKind, Mark, Requests, Scene } from "../../wire.gen";
import type { Arrays, TypedArray } from "../transfer";
import type { Point, Rect } from "./camera";

type Colours = Requests["graph.colours"]["reply"];

export interface Item extends Rect {
  index: number;
  id: string;
  label: string;
  detail: string;
  kind: ItemKind;
  count: number;
  /** The frame it stands in. */
  parent: Item | null;
  opClass: string;
  /** For portals: the item at the other end. */
  peer: Item | null;
  into: Edge[];
  out: Edge[];
}

export interface Edge {
  index: number;
  from: Item;
  to: Item;
  tensor: string;
  label: string;
  /** From where it leaves to where it arrives, bends between them. */
  points: Point[];
}

/** Colour and marks of one item. */
export interface Paint {
  slot: number;
  level: number;
  mark: Mark;
  figure: string;
  probed: boolean;
  kept: boolean;
  /** Can be probed without changing the engine. */
  safe: boolean;
}

const CELL = 320;
const MAX_CELLS_EACH = 400;

const numbers = (arrays: Arrays, name: string): TypedArray => {
  const array = arrays[name];
  if (!array) throw new Error(`scene without the array ${name}`);
  return array.data;
};

/** Which rectangles touch which cells of the plane. */
class Grid<T extends { index: number }> {
  readonly #cells = new Map<number, T[]>();
  /** Too large for cells: looked at each time. */
  readonly #large: T[] = [];
  readonly #boxes: Rect[] = [];
  #seen: Uint32Array = new Uint32Array(0);
  #round = 0;

  add(thing: T, box: Rect): void {
    this.#boxes[thing.index] = box;
    const cells = [...this.#cover(box, MAX_CELLS_EACH + 1)];
    if (cells.length > MAX_CELLS_EACH) {
      this.#large.push(thing);
      return;
    }
    for (const key of cells) {
      const cell = this.#cells.get(key);
      if (cell) cell.push(thing);
      else this.#cells.set(key, [thing]);
    }
  }

  /** All that touch `area`, each once, in the order of their index. */
  in(area: Rect): T[] {
    if (this.#seen.length < this.#boxes.length) this.#seen = new Uint32Array(this.#boxes.length);
    this.#round += 1;
    const found: T[] = [];
    const look = (things: Iterable<T>): void => {
      for (const thing of things) {
        if (this.#seen[thing.index] === this.#round) continue;
        this.#seen[thing.index] = this.#round;
        const box = this.#boxes[thing.index];
        if (box && overlaps(box, area)) found.push(thing);
      }
    };
    look(this.#large);
    const cells = this.#cells;
    const asked = (area.w / CELL + 2) * (area.h / CELL + 2);
    if (asked > cells.size) for (const cell of cells.values()) look(cell);
    else for (const key of this.#cover(area, Number.POSITIVE_INFINITY)) look(cells.get(key) ?? []);
    return found.sort((a, b) => a.index - b.index);
  }

  *#cover(box: Rect, limit: number): Iterable<number> {
    let given = 0;
    for (let row = Math.floor(box.y / CELL); row <= Math.floor((box.y + box.h) / CELL); row++) {
      for (let column = Math.floor(box.x / CELL); column <= Math.floor((box.x + box.w) / CELL); column++) {
        if (given++ >= limit) return;
        yield row * 1_000_003 + column;
      }
    }
  }
}

function overlaps(a: Rect, b: Rect): boolean {
  return a.x <= b.x + b.w && b.x <= a.x + a.w && a.y <= b.y + b.h && b.y <= a.y + a.h;
}

export class GraphScene {
  readonly items: Item[] = [];
  readonly edges: Edge[] = [];
  readonly bounds: Rect;
  readonly #byId = new Map<string, Item>();
  readonly #itemGrid = new Grid<Item>();
  readonly #edgeGrid = new Grid<Edge>();

  constructor(
    readonly data: Scene,
    arrays: Arrays,
  ) {
    const [x, y, w, h] = ["x", "y", "w", "h"].map((name) => numbers(arrays, name));
    const kind = numbers(arrays, "kind");
    const [parent, peer] = [numbers(arrays, "parent"), numbers(arrays, "peer")];
    const count = numbers(arrays, "count");
    const opClass = numbers(arrays, "op_class");
    data.ids.forEach((id, index) => {
      const item: Item = {
        index,
        id,
        label: data.labels[index] ?? id,
        detail: data.details[index] ?? "",
        kind: data.kinds[kind[index] ?? 0] ?? "node",
        x: x?.[index] ?? 0,
        y: y?.[index] ?? 0,
        w: w?.[index] ?? 0,
        h: h?.[index] ?? 0,
        count: count[index] ?? 1,
        opClass: data.op_classes[opClass[index] ?? 0] ?? "other",
        parent: null,
        peer: null,
        into: [],
        out: [],
      };
      this.items.push(item);
      this.#itemGrid.add(item, item);
      if (item.kind !== "portal" && !this.#byId.has(id)) this.#byId.set(id, item);
    });
    for (const item of this.items) {
      item.parent = this.items[parent[item.index] ?? -1] ?? null;
      item.peer = this.items[peer[item.index] ?? -1] ?? null;
    }
    this.bounds = boundsOf(this.items);
    this.#connect(arrays);
  }

  #connect(arrays: Arrays): void {
    const from = numbers(arrays, "edge_from");
    const to = numbers(arrays, "edge_to");
    const tensor = numbers(arrays, "edge_tensor");
    const starts = numbers(arrays, "edge_start");
    const [xs, ys] = [numbers(arrays, "point_x"), numbers(arrays, "point_y")];
    for (let index = 0; index < from.length; index++) {
      const [source, target] = [this.items[from[index] ?? -1], this.items[to[index] ?? -1]];
      if (!source || !target) continue;
      const which = tensor[index] ?? -1;
      const edge: Edge = {
        index: this.edges.length,
        from: source,
        to: target,
        tensor: this.data.tensors[which] ?? "",
        label: this.data.tensor_labels[which] ?? "",
        points: [],
      };
      for (let p = starts[index] ?? 0; p < (starts[index + 1] ?? 0); p++)
        edge.points.push({ x: xs[p] ?? 0, y: ys[p] ?? 0 });
      this.edges.push(edge);
      source.out.push(edge);
      target.into.push(edge);
      this.#edgeGrid.add(edge, boundsOf(edge.points.map((point) => ({ ...point, w: 0, h: 0 }))));
    }
  }

  /** The box of a node, scope or tensor, if this graph shows it. */
  find(id: string): Item | undefined {
    return this.#byId.get(id);
  }

  /** The box of a node, or of the innermost closed scope that its path leads into. */
  findAround(id: string): Item | undefined {
    for (let path = id; path !== ""; path = path.slice(0, Math.max(0, path.lastIndexOf("/")))) {
      const item = this.#byId.get(path);
      if (item) return item.kind === "frame" ? undefined : item;
    }
    return undefined;
  }

  itemsIn(area: Rect): Item[] {
    return this.#itemGrid.in(area);
  }

  edgesIn(area: Rect): Edge[] {
    return this.#edgeGrid.in(area);
  }

  /** What lies at a world point; of an open scope only the header counts as hit, unless nothing else is there. */
  hit(point: Point): Item | null {
    const found = this.itemsIn({ ...point, w: 0, h: 0 });
    const solid = found.filter((item) => item.kind !== "frame").at(-1);
    if (solid) return solid;
    return found.filter((item) => point.y <= item.y + HEADER).at(-1) ?? null;
  }

  /** The edge within `reach` of a world point. */
  hitEdge(point: Point, reach: number): Edge | null {
    let best: Edge | null = null;
    let least = reach;
    for (const edge of this.edgesIn({ x: point.x - reach, y: point.y - reach, w: 2 * reach, h: 2 * reach })) {
      const distance = distanceTo(edge, point);
      if (distance <= least) [best, least] = [edge, distance];
    }
    return best;
  }

  /** The item that an arrow key leads to. Up and down follow edges; left and right go to what stands beside it. */
  step(item: Item, key: "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight"): Item | null {
    if (key === "ArrowDown")
      return nearest(
        item,
        item.out.map((edge) => edge.to),
      );
    if (key === "ArrowUp")
      return nearest(
        item,
        item.into.map((edge) => edge.from),
      );
    const side = key === "ArrowRight" ? 1 : -1;
    const { x, w } = this.bounds;
    const siblings = this.itemsIn({ x, y: item.y, w, h: item.h }).filter(
      (other) =>
        other.kind !== "frame" &&
        (other.x - item.x) * side > 0 &&
        other.y < item.y + item.h &&
        item.y < other.y + other.h,
    );
    return nearest(item, siblings);
  }
}

/** Height of the header of an open scope, in world units. */
export const HEADER = 26;

/** How far the curve from `a` to `b` runs straight down before it turns. */
export const bendOf = (a: Point, b: Point): number => Math.max(4, Math.abs(b.y - a.y) * 0.45);

function distanceTo(edge: Edge, point: Point): number {
  let least = Number.POSITIVE_INFINITY;
  edge.points.forEach((b, index) => {
    const a = edge.points[index - 1];
    if (a) least = Math.min(least, toCurve(a, b, point));
  });
  return least;
}

function toCurve(a: Point, b: Point, point: Point): number {
  const bend = bendOf(a, b);
  let least = Number.POSITIVE_INFINITY;
  let before = a;
  for (let i = 1; i <= 10; i++) {
    const t = i / 10;
    const u = 1 - t;
    const at = {
      x: u * u * (u + 3 * t) * a.x + t * t * (t + 3 * u) * b.x,
      y: u ** 3 * a.y + 3 * u * u * t * (a.y + bend) + 3 * u * t * t * (b.y - bend) + t ** 3 * b.y,
    };
    least = Math.min(least, toSegment(point, before, at));
    before = at;
  }
  return least;
}

function toSegment(p: Point, a: Point, b: Point): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((p.x - a.x) * dx + (p.y - a.y) * dy) / length));
  return Math.hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

function nearest(item: Item, others: Item[]): Item | null {
  const middle = item.x + item.w / 2;
  let best: Item | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const other of others) {
    const distance = Math.abs(other.x + other.w / 2 - middle) + Math.abs(other.y - item.y) * 0.01;
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}

function boundsOf(boxes: Rect[]): Rect {
  if (boxes.length === 0) return { x: 0, y: 0, w: 0, h: 0 };
  let [left, top, right, bottom] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, -1e30, -1e30];
  for (const box of boxes) {
    left = Math.min(left, box.x);
    top = Math.min(top, box.y);
    right = Math.max(right, box.x + box.w);
    bottom = Math.max(bottom, box.y + box.h);
  }
  return { x: left, y: top, w: right - left, h: bottom - top };
}

const UNPAINTED: Paint = {
  slot: -1,
  level: Number.NaN,
  mark: "none",
  figure: "",
  probed: false,
  kept: false,
  safe: false,
};

/** Colours of a scene, by item. Until they have come, items are plain. */
export class Paints {
  constructor(
    readonly data: Colours | null = null,
    readonly arrays: Arrays = {},
  ) {}

  of(item: Item): Paint {
    const { data, arrays } = this;
    if (!data) return UNPAINTED;
    return {
      slot: arrays.slot?.data[item.index] ?? -1,
      level: arrays.level?.data[item.index] ?? Number.NaN,
      mark: data.marks[arrays.mark?.data[item.index] ?? 0] ?? "none",
      figure: data.figures[item.index] ?? "",
      probed: Boolean(arrays.probed?.data[item.index]),
      kept: Boolean(arrays.kept?.data[item.index]),
      safe: Boolean(arrays.safe?.data[item.index]),
    };
  }
}
