// How values are written in a table.
import type { Column } from "../../wire.gen";
import { h } from "../dom";
import { markLook } from "../marks";
import type { Cell } from "./types";

const INTEGER = new Intl.NumberFormat("en", { useGrouping: true, maximumFractionDigits: 0 });
const TAIL = 16;

/** Four significant digits; very small and very large numbers with an exponent. */
export function figure(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(4)));
  const [digits = "", exponent = ""] = value.toExponential(3).split("e");
  return `${Number(digits)}e${exponent.replace("+", "")}`;
}

/** The text of a cell, as it is read out and copied. */
export function textOf(value: Cell, column: Column): string {
  if (value === null) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return column.format === "verdict" ? (markLook(value)?.word ?? value) : value;
  if (column.format === "integer") return INTEGER.format(value);
  if (column.format === "share") return `${(value * 100).toFixed(1)} %`;
  if (column.format === "figure") return figure(value);
  return String(value);
}

export const isNumeric = (column: Column): boolean => ["integer", "figure", "share"].includes(column.format);

/** What stands in a cell. */
export function cellContent(value: Cell, column: Column): Node | string {
  const text = textOf(value, column);
  if (value === null) return h("span", { class: "trt-faint", "aria-label": "not defined", text });
  if (column.format === "verdict") {
    const mark = markLook(value);
    return mark
      ? h(
          "span",
          { class: `trt-${mark.colour}` },
          h("span", { "aria-hidden": "true", text: `${mark.sign} ` }),
          mark.word,
        )
      : text;
  }
  if (column.format === "yes") return value === true ? h("span", { "aria-label": "yes", text: "✓" }) : "";
  if (column.format === "share" && typeof value === "number") {
    const bar = h("span", { class: "trt-share", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
    return h("span", { class: "trt-share-cell" }, bar, h("span", { class: "trt-share-text", text }));
  }
  if (column.format === "name" && text.length > TAIL * 1.5) {
    // The first part gives way and the end stays: names differ least in the middle.
    return h(
      "span",
      { class: "trt-elided" },
      h("span", { class: "trt-start", text: text.slice(0, -TAIL) }),
      h("span", { text: text.slice(-TAIL) }),
    );
  }
  return h("span", { class: "trt-cut", text });
}
