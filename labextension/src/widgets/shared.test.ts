// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import { elide, h } from "./dom";
import { hueOf, Palette } from "./graph/palette";
import { figure, textOf } from "./table/cells";
import { contrast, mix, parseColour, type Theme } from "./theme";

const LIGHT: Theme = {
  dark: false,
  page: "#ffffff",
  panel: "#ffffff",
  inset: "#eeeeee",
  text: "#111111",
  faint: "#5a5a5a",
  line: "#757575",
  accent: "#1565c0",
  good: "#2e7d32",
  bad: "#c62828",
  unsure: "#8a5300",
  probe: "#006978",
  keep: "#6a1b9a",
  font: "x",
};
const DARK: Theme = {
  ...LIGHT,
  dark: true,
  page: "#111111",
  panel: "#212121",
  inset: "#424242",
  text: "#ffffff",
  faint: "#b5b5b5",
};

describe("text", () => {
  it("is elided in the middle", () => {
    expect(elide("/encoder/layers.0/attn/MatMul", 12)).toBe("/encod…atMul");
    expect(elide("short", 12)).toBe("short");
    expect(elide("abcdef", 2)).toBe("ab");
  });

  it("is never taken for markup", () => {
    const element = h("div", { title: "<b>", text: "<img src=x onerror=alert(1)>" });
    expect(element.children.length).toBe(0);
    expect(element.textContent).toBe("<img src=x onerror=alert(1)>");
  });
});

describe("figures", () => {
  it("have four digits", () => {
    expect([0, 0.5, 1 / 3, 1234.567, 123456, 1e-5, -2.5e-9].map(figure)).toEqual([
      "0",
      "0.5",
      "0.3333",
      "1235",
      "1.235e5",
      "1e-5",
      "-2.5e-9",
    ]);
  });

  it("are written as their column says", () => {
    const column = (format: "integer" | "share" | "verdict" | "figure") =>
      ({ name: "c", label: "c", format, unit: "", help: "", width: 0 }) as const;
    expect(textOf(1234567, column("integer"))).toBe("1,234,567");
    expect(textOf(0.1234, column("share"))).toBe("12.3 %");
    expect(textOf("not_comparable", column("verdict"))).toBe("not comparable");
    expect(textOf(null, column("figure"))).toBe("–");
    expect(textOf("NaN", column("figure"))).toBe("NaN");
  });
});

describe("colours", () => {
  it("are read in the forms that themes use", () => {
    expect(parseColour("#abc")).toEqual([170, 187, 204]);
    expect(parseColour(" #102030 ")).toEqual([16, 32, 48]);
    expect(parseColour("rgba(1, 2, 3, 0.5)")).toEqual([1, 2, 3]);
    expect(parseColour("var(--x)")).toBeNull();
    expect(mix([0, 0, 0], [255, 255, 255], 0.5)).toEqual([128, 128, 128]);
  });

  it.each([
    ["light", LIGHT],
    ["dark", DARK],
  ] as const)("give text enough contrast in the %s theme", (_name, theme) => {
    const palette = new Palette(theme);
    const plain = { mark: "none", figure: "", probed: false, kept: false, safe: false } as const;
    for (let slot = -1; slot < 9; slot++) {
      const box = palette.box({ ...plain, slot, level: Number.NaN }, "type");
      const fill = parseColour(box.fill) ?? expect.fail(box.fill);
      expect(contrast(fill, parseColour(box.text) ?? fill)).toBeGreaterThan(7);
      expect(contrast(fill, parseColour(box.faint) ?? fill)).toBeGreaterThan(4.5);
      if (slot >= 0) expect(contrast(hueOf(slot, theme), parseColour(theme.panel) ?? fill)).toBeGreaterThan(3);
    }
    for (let level = 0; level <= 1; level += 0.05) {
      for (const by of ["error", "time"]) {
        const box = palette.box({ ...plain, slot: -1, level }, by);
        const fill = parseColour(box.fill) ?? expect.fail(box.fill);
        expect(contrast(fill, parseColour(box.text) ?? fill)).toBeGreaterThan(4.5);
      }
    }
  });
});
