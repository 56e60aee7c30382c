// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { markNarrow, NARROW, NARROW_MAX } from "./narrow";

function workbench(): { outer: HTMLElement; graph: HTMLElement; widen(width: number): void } {
  const outer = document.createElement("div");
  outer.className = "trt-lab-workbench";
  const graph = document.createElement("div");
  outer.append(graph);
  const widen = (width: number) => Object.defineProperty(outer, "clientWidth", { value: width, configurable: true });
  return { outer, graph, widen };
}

it("marks a workbench that is narrow, and takes the mark off a wide one", () => {
  const { outer, graph, widen } = workbench();
  for (const [width, narrow] of [
    [NARROW_MAX, true],
    [NARROW_MAX + 1, false],
    [320, true],
  ] as const) {
    widen(width);
    markNarrow(graph);
    expect(outer.classList.contains(NARROW)).toBe(narrow);
  }
});

it("leaves a hidden one as it is", () => {
  const { outer, graph, widen } = workbench();
  widen(500);
  markNarrow(graph);
  widen(0);
  markNarrow(graph);
  expect(outer.classList.contains(NARROW)).toBe(true);
});

it("does nothing outside a workbench", () => {
  const alone = document.createElement("div");
  markNarrow(alone);
  expect(alone.className).toBe("");
});
