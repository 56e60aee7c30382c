// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import type { Scene } from "../../wire.gen";
import type { Arrays } from "../transfer";
import { Camera } from "./camera";
import { GraphScene, Paints } from "./scene";

const KINDS = ["frame", "scope", "node", "input", "output", "outer", "portal"] as const;

/** A column of nodes n0 → n1 → …, each 60 × 40 at y = 100 i, and one beside the second; `kinds` as in `KINDS`. */
function column(count: number, names?: string[], kinds?: number[]): GraphScene {
  const ids = [...(names ?? Array.from({ length: count }, (_, i) => `n${i}`)), "beside"];
  const data = {
    graph: "",
    title: "t",
    expanded: [],
    crumbs: [],
    kinds: [...KINDS],
    op_classes: ["other"],
    ids,
    labels: ids,
    details: ids,
    tensors: ["t"],
    tensor_labels: ["f32 1"],
    nested: {},
    notes: [],
    nodes: count,
  } satisfies Scene;
  const total = ids.length;
  const floats = (values: number[]) => ({ data: Float32Array.from(values), shape: [values.length] });
  const integers = (values: number[]) => ({ data: Int32Array.from(values), shape: [values.length] });
  const edges = Array.from({ length: count - 1 }, (_, i) => i);
  const arrays: Arrays = {
    x: floats(ids.map((id) => (id === "beside" ? 200 : 0))),
    y: floats(ids.map((id, i) => (id === "beside" ? 100 : 100 * i))),
    w: floats(ids.map(() => 60)),
    h: floats(ids.map(() => 40)),
    kind: { data: Uint8Array.from(ids.map((_, i) => kinds?.[i] ?? 2)), shape: [total] },
    parent: integers(ids.map(() => -1)),
    peer: integers(ids.map(() => -1)),
    count: integers(ids.map(() => 1)),
    op_class: { data: new Uint8Array(total), shape: [total] },
    edge_from: integers(edges),
    edge_to: integers(edges.map((i) => i + 1)),
    edge_tensor: integers(edges.map(() => 0)),
    edge_start: integers([...edges, count - 1].map((i) => 2 * i)),
    point_x: floats(edges.flatMap(() => [30, 30])),
    point_y: floats(edges.flatMap((i) => [100 * i + 40, 100 * i + 100])),
  };
  return new GraphScene(data, arrays);
}

describe("scene", () => {
  it("finds the box that a node is in: itself, or the closed scope on its path", () => {
    const scene = column(3, ["n0", "/a", "/b"], [2, 1, 0]);
    expect(scene.findAround("n0")?.id).toBe("n0");
    expect(scene.findAround("/a/deep/Conv")?.id).toBe("/a");
    expect(scene.findAround("/b/Conv")).toBeUndefined(); // an open scope does not stand for what it holds
    expect(scene.findAround("/elsewhere/Conv")).toBeUndefined();
  });

  it("finds what lies in a part of the plane, each once", () => {
    const scene = column(50);
    expect(scene.itemsIn({ x: -10, y: 95, w: 500, h: 200 }).map((item) => item.id)).toEqual(["n1", "n2", "beside"]);
    expect(scene.itemsIn({ x: -1e6, y: -1e6, w: 2e6, h: 2e6 }).length).toBe(51);
    expect(scene.itemsIn({ x: 1000, y: 1000, w: 5, h: 5 })).toEqual([]);
    expect(scene.bounds).toEqual({ x: 0, y: 0, w: 260, h: 4940 });
  });

  it("hits boxes and edges", () => {
    const scene = column(5);
    expect(scene.hit({ x: 5, y: 105 })?.id).toBe("n1");
    expect(scene.hit({ x: 5, y: 60 })).toBeNull();
    expect(scene.hitEdge({ x: 33, y: 70 }, 5)?.from.id).toBe("n0");
    expect(scene.hitEdge({ x: 50, y: 70 }, 5)).toBeNull();
  });

  it("steps along edges and sideways, and stops at the ends", () => {
    const scene = column(3);
    const at = (id: string) => scene.find(id) ?? expect.fail(id);
    expect(scene.step(at("n0"), "ArrowDown")?.id).toBe("n1");
    expect(scene.step(at("n1"), "ArrowUp")?.id).toBe("n0");
    expect(scene.step(at("n1"), "ArrowRight")?.id).toBe("beside");
    expect(scene.step(at("beside"), "ArrowLeft")?.id).toBe("n1");
    expect(scene.step(at("n2"), "ArrowDown")).toBeNull();
  });

  it("is plain until colours have come", () => {
    const scene = column(2);
    const item = scene.find("n0") ?? expect.fail("n0");
    expect(new Paints().of(item)).toMatchObject({ slot: -1, mark: "none", probed: false });
  });
});

describe("camera", () => {
  const camera = () => Object.assign(new Camera(), { width: 400, height: 300 });

  it("keeps the point under the pointer while it zooms", () => {
    const it = camera();
    const before = it.toWorld({ x: 100, y: 50 });
    it.zoomAt({ x: 100, y: 50 }, 2.5);
    const after = it.toWorld({ x: 100, y: 50 });
    expect(after.x).toBeCloseTo(before.x);
    expect(after.y).toBeCloseTo(before.y);
    expect(it.scale).toBe(2.5);
  });

  it("fits everything, and never enlarges small graphs", () => {
    const it = camera();
    it.fit({ x: 0, y: 0, w: 4000, h: 100 });
    expect(it.view.x).toBeLessThan(0);
    expect(it.view.x + it.view.w).toBeGreaterThan(4000);
    it.fit({ x: 0, y: 0, w: 10, h: 10 });
    expect(it.scale).toBe(1);
  });

  it("opens long graphs at their beginning, large enough to read", () => {
    const it = camera();
    it.open({ x: 0, y: 0, w: 100, h: 100_000 }, { x: 50, y: 0 });
    expect(it.scale).toBeGreaterThan(0.5);
    expect(it.toScreen({ x: 50, y: 0 }).x).toBeCloseTo(200);
    expect(it.toScreen({ x: 50, y: 0 }).y).toBeGreaterThan(0);
  });
});
