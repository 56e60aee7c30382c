// Paints what is on screen of a graph. Far away boxes are plain, near ones have text, signs and badges.
import { elide } from "../dom";
import { markLook } from "../marks";
import type { Camera, Rect } from "./camera";
import { type BoxColours, type Palette, signOf } from "./palette";
import { bendOf, type Edge, type GraphScene, HEADER, type Item, type Paints } from "./scene";

export interface Look {
  palette: Palette;
  paints: Paints;
  by: string;
  selected: string;
  selectedTensor: string;
  related: ReadonlySet<string>;
  hover: Item | null;
}

const BAND = 16;
const TEXT_SCALE = 0.5;
const SHAPE_SCALE = 0.62;
const BOX_SCALE = 0.12;
const FONT = 12;

const fitted = new Map<string, string>();
const MAX_FITTED = 20_000;

/** `text` shortened in the middle until it fits into `room` in the context's font. */
function fitText(context: CanvasRenderingContext2D, text: string, room: number): string {
  const key = `${context.font}|${Math.round(room)}|${text}`;
  const known = fitted.get(key);
  if (known !== undefined) return known;
  let shown = text;
  if (room <= 0) shown = "";
  else if (context.measureText(text).width > room) {
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(elide(text, middle)).width <= room) low = middle;
      else high = middle - 1;
    }
    shown = elide(text, low);
  }
  if (fitted.size >= MAX_FITTED) fitted.clear();
  fitted.set(key, shown);
  return shown;
}

/** Draws the scene on a cleared context that is scaled to CSS pixels. */
export function drawScene(context: CanvasRenderingContext2D, scene: GraphScene, camera: Camera, look: Look): void {
  const area = camera.view;
  const { theme } = look.palette;
  context.save();
  context.scale(camera.scale, camera.scale);
  context.translate(-camera.x, -camera.y);
  const items = scene.itemsIn(grow(area, 40));
  const near = camera.scale >= BOX_SCALE;
  for (const item of items) if (item.kind === "frame") drawContainer(context, item, camera, look);
  drawEdges(context, scene.edgesIn(area), camera, look);
  if (near) for (const item of items) drawBox(context, item, camera, look);
  else drawFar(context, items, camera, look);
  drawSelection(context, scene, look, camera, theme.accent);
  context.restore();
}

const grow = (box: Rect, by: number): Rect => ({ x: box.x - by, y: box.y - by, w: box.w + 2 * by, h: box.h + 2 * by });

function rounded(context: CanvasRenderingContext2D, box: Rect, radius: number): void {
  context.beginPath();
  context.roundRect(box.x, box.y, box.w, box.h, radius);
}

/** Boxes too small for detail: one fill a colour, never thinner than a pixel and a half. */
function drawFar(context: CanvasRenderingContext2D, items: Item[], camera: Camera, look: Look): void {
  const least = 1.5 / camera.scale;
  const groups = new Map<string, Item[]>();
  const marked: Item[] = [];
  for (const item of items) {
    if (item.kind === "frame" || item.kind === "portal") continue;
    const paint = look.paints.of(item);
    const { band } = look.palette.box(paint, look.by);
    const group = groups.get(band);
    if (group) group.push(item);
    else groups.set(band, [item]);
    if (paint.probed || paint.mark === "differs") marked.push(item);
  }
  for (const [colour, group] of groups) {
    context.fillStyle = colour;
    for (const item of group) context.fillRect(item.x, item.y, Math.max(item.w, least), Math.max(item.h, least));
  }
  for (const item of marked) {
    context.fillStyle = look.paints.of(item).probed ? look.palette.theme.probe : look.palette.theme.bad;
    const size = 5 / camera.scale;
    context.fillRect(item.x + item.w, item.y, size, size);
  }
}

function drawContainer(context: CanvasRenderingContext2D, item: Item, camera: Camera, look: Look): void {
  const { theme } = look.palette;
  context.globalAlpha = theme.dark ? 0.3 : 0.45;
  context.fillStyle = theme.inset;
  rounded(context, item, 8);
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = theme.line;
  context.lineWidth = 1 / camera.scale;
  context.setLineDash([5 / camera.scale, 4 / camera.scale]);
  context.stroke();
  context.setLineDash([]);
  if (camera.scale < TEXT_SCALE) return;
  context.font = `600 ${FONT}px ${theme.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = theme.text;
  context.fillText(fitText(context, `▾ ${item.label}  (${item.count})`, item.w - 16), item.x + 8, item.y + HEADER / 2);
}

function trace(context: CanvasRenderingContext2D, edge: Edge, straight: boolean): void {
  edge.points.forEach((b, index) => {
    const a = edge.points[index - 1];
    if (!a) context.moveTo(b.x, b.y);
    else if (straight || a.x === b.x) context.lineTo(b.x, b.y);
    else context.bezierCurveTo(a.x, a.y + bendOf(a, b), b.x, b.y - bendOf(a, b), b.x, b.y);
  });
}

function drawEdges(context: CanvasRenderingContext2D, edges: Edge[], camera: Camera, look: Look): void {
  const { theme } = look.palette;
  const far = camera.scale < BOX_SCALE;
  const lit = edges.filter((edge) => isLit(edge, look));
  context.strokeStyle = theme.line;
  context.globalAlpha = far ? 0.35 : 0.8;
  context.lineWidth = far ? 0.7 / camera.scale : Math.max(1, 0.8 / camera.scale);
  context.beginPath();
  for (const edge of edges) trace(context, edge, far);
  context.stroke();
  context.globalAlpha = 1;
  if (!far) drawArrows(context, edges, theme.line);
  context.strokeStyle = theme.accent;
  context.lineWidth = Math.max(2.2, 1.6 / camera.scale);
  context.beginPath();
  for (const edge of lit) trace(context, edge, false);
  context.stroke();
  if (!far) drawArrows(context, lit, theme.accent);
  if (camera.scale >= SHAPE_SCALE) drawShapes(context, edges, look);
}

/** Edges of what is selected or under the pointer, and those that carry the selected tensor. */
function isLit(edge: Edge, look: Look): boolean {
  if (look.selectedTensor && edge.tensor === look.selectedTensor) return true;
  return [edge.from, edge.to].some((end) => end === look.hover || (end.id === look.selected && end.kind !== "frame"));
}

function drawArrows(context: CanvasRenderingContext2D, edges: Edge[], colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  for (const edge of edges) {
    if (edge.to.kind === "portal") continue;
    const b = edge.points.at(-1);
    if (!b) continue;
    context.moveTo(b.x, b.y);
    context.lineTo(b.x - 3.5, b.y - 7);
    context.lineTo(b.x + 3.5, b.y - 7);
    context.closePath();
  }
  context.fill();
}

/** Type and shape, once at the end of each tensor's first edge, where there is room for it. */
function drawShapes(context: CanvasRenderingContext2D, edges: Edge[], look: Look): void {
  const { theme } = look.palette;
  context.font = `10px ${theme.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const done = new Set<string>();
  for (const edge of edges) {
    if (!edge.label || done.has(edge.tensor) || edge.from.kind === "portal" || edge.to.kind === "portal") continue;
    done.add(edge.tensor);
    const [a, b] = edge.points;
    if (!a || !b || b.y - a.y < 18) continue;
    const text = elide(edge.label, 30);
    const width = context.measureText(text).width;
    context.fillStyle = theme.page;
    context.globalAlpha = 0.85;
    const left = a.x + (look.paints.of(edge.from).probed ? 11 : 4);
    context.fillRect(left, a.y + 4, width + 6, 13);
    context.globalAlpha = 1;
    context.fillStyle = theme.faint;
    context.fillText(text, left + 3, a.y + 11);
  }
}

function drawBox(context: CanvasRenderingContext2D, item: Item, camera: Camera, look: Look): void {
  if (item.kind === "frame") return;
  const paint = look.paints.of(item);
  const colours = look.palette.box(paint, look.by);
  if (item.kind === "portal") {
    drawPortal(context, item, camera, look);
    return;
  }
  const round = item.kind === "input" || item.kind === "output" || item.kind === "outer";
  const radius = round ? item.h / 2 : 5;
  if (item.kind === "scope") drawStack(context, item, look);
  context.fillStyle = look.palette.theme.panel;
  rounded(context, item, radius);
  context.fill();
  context.fillStyle = colours.fill;
  context.fill();
  context.strokeStyle = colours.band;
  context.lineWidth = Math.max(1, 0.8 / camera.scale);
  context.stroke();
  if (!round) drawBand(context, item, colours, look, camera);
  if (camera.scale >= TEXT_SCALE) drawText(context, item, colours, look, paint.figure);
  drawBadges(context, item, look);
}

/** A second sheet behind a collapsed scope: there is more inside. */
function drawStack(context: CanvasRenderingContext2D, item: Item, look: Look): void {
  context.strokeStyle = look.palette.theme.line;
  context.fillStyle = look.palette.theme.inset;
  context.lineWidth = 1;
  rounded(context, { x: item.x + 4, y: item.y + 4, w: item.w, h: item.h }, 5);
  context.fill();
  context.stroke();
}

function drawBand(
  context: CanvasRenderingContext2D,
  item: Item,
  colours: BoxColours,
  look: Look,
  camera: Camera,
): void {
  const band = Math.min(BAND, item.w / 3);
  context.fillStyle = colours.band;
  context.beginPath();
  context.roundRect(item.x, item.y, band, item.h, [5, 0, 0, 5]);
  context.fill();
  if (camera.scale < TEXT_SCALE) return;
  context.font = `700 13px ${look.palette.theme.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = look.palette.inkOn(colours.band);
  context.fillText(item.kind === "scope" ? "▸" : signOf(item.opClass), item.x + band / 2, item.y + item.h / 2);
}

function drawText(
  context: CanvasRenderingContext2D,
  item: Item,
  colours: BoxColours,
  look: Look,
  figure: string,
): void {
  const { theme } = look.palette;
  const round = item.kind === "input" || item.kind === "output" || item.kind === "outer";
  const inset = round ? 10 : Math.min(BAND, item.w / 3) + 5;
  const left = round ? item.x + item.w / 2 : item.x + inset;
  const room = item.w - inset - (round ? 10 : 4);
  const detail = figure || item.detail;
  context.textAlign = round ? "center" : "left";
  context.textBaseline = "middle";
  context.font = `500 ${FONT}px ${theme.font}`;
  context.fillStyle = colours.text;
  const middle = item.y + item.h / 2;
  const two = detail !== "" && item.h >= 30;
  context.fillText(fitText(context, item.label, room), left, two ? middle - 7 : middle + 0.5);
  if (!two) return;
  context.font = `${FONT - 1.5}px ${theme.font}`;
  context.fillStyle = colours.faint;
  context.fillText(fitText(context, detail, room), left, middle + 8);
}

/** Pin of a probe or eyelet for one, "32" of a node kept in FP32, sign of the verdict. */
function drawBadges(context: CanvasRenderingContext2D, item: Item, look: Look): void {
  const paint = look.paints.of(item);
  const { theme } = look.palette;
  const badge = (x: number, y: number, text: string, colour: string, width: number): void => {
    context.fillStyle = colour;
    context.strokeStyle = theme.panel;
    context.lineWidth = 1.5;
    context.beginPath();
    context.roundRect(x - width / 2, y - 7.5, width, 15, 7.5);
    context.fill();
    context.stroke();
    context.fillStyle = look.palette.inkOn(colour);
    context.font = `700 10px ${theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, x, y + 0.5);
  };
  const mark = markLook(paint.mark);
  if (mark) badge(item.x + item.w - 4, item.y + 2, mark.sign, theme[mark.colour], 15);
  if (paint.kept) badge(item.x + item.w - 12, item.y + item.h, "32", theme.keep, 20);
  if (paint.probed) drawPin(context, item, look);
  else if (paint.safe) drawSafe(context, item, look);
}

/** An empty eyelet where a probe may go: the engine stays as it is. */
function drawSafe(context: CanvasRenderingContext2D, item: Item, look: Look): void {
  const { theme } = look.palette;
  context.beginPath();
  context.arc(item.x + item.w / 2, item.y + item.h, 4, 0, 2 * Math.PI);
  context.fillStyle = theme.page;
  context.fill();
  context.strokeStyle = theme.probe;
  context.lineWidth = 2;
  context.stroke();
}

function drawPin(context: CanvasRenderingContext2D, item: Item, look: Look): void {
  const { theme } = look.palette;
  const [x, y] = [item.x + item.w / 2, item.y + item.h + 7];
  context.fillStyle = theme.probe;
  context.strokeStyle = theme.panel;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y, 7, Math.PI * 0.85, Math.PI * 0.15);
  context.lineTo(x, y + 13);
  context.closePath();
  context.fill();
  context.stroke();
  context.fillStyle = theme.panel;
  context.beginPath();
  context.arc(x, y - 0.5, 2.6, 0, 2 * Math.PI);
  context.fill();
}

function drawPortal(context: CanvasRenderingContext2D, item: Item, camera: Camera, look: Look): void {
  const { theme } = look.palette;
  context.strokeStyle = theme.line;
  context.fillStyle = theme.inset;
  context.lineWidth = Math.max(1, 0.8 / camera.scale);
  context.beginPath();
  context.moveTo(item.x, item.y);
  context.lineTo(item.x + item.w - 8, item.y);
  context.lineTo(item.x + item.w, item.y + item.h / 2);
  context.lineTo(item.x + item.w - 8, item.y + item.h);
  context.lineTo(item.x, item.y + item.h);
  context.closePath();
  context.fill();
  context.stroke();
  if (camera.scale < TEXT_SCALE) return;
  context.font = `10px ${theme.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = theme.text;
  context.fillText(fitText(context, item.label, item.w - 15), item.x + 5, item.y + item.h / 2 + 0.5);
}

function drawSelection(
  context: CanvasRenderingContext2D,
  scene: GraphScene,
  look: Look,
  camera: Camera,
  colour: string,
): void {
  const ring = (item: Item, width: number): void => {
    const gap = 3 / Math.max(camera.scale, BOX_SCALE);
    context.strokeStyle = colour;
    context.lineWidth = width / Math.min(1, camera.scale);
    rounded(context, grow(item, gap), 7);
    context.stroke();
  };
  if (look.hover && look.hover.id !== look.selected) ring(look.hover, 1.2);
  context.setLineDash([5 / camera.scale, 3 / camera.scale]);
  for (const id of look.related) {
    const item = id === look.selected ? undefined : scene.find(id);
    if (item) ring(item, 2);
  }
  context.setLineDash([]);
  const selected = look.selected ? scene.find(look.selected) : undefined;
  if (selected) ring(selected, 2.6);
}
