import { describe, expect, it } from "vitest";
import { type Span, spanAfter } from "./keys";

const ALL: Span = { start: 0, end: 100 };
const SHOWN: Span = { start: 40, end: 60 };

describe("keys of a timeline", () => {
  it("zooms about the middle", () => {
    expect(spanAfter("w", SHOWN, ALL, null)).toEqual({ start: 42, end: 58 });
    expect(spanAfter("s", SHOWN, ALL, null)).toEqual({ start: 37.5, end: 62.5 });
  });

  it("pans, and stops at the ends", () => {
    expect(spanAfter("d", SHOWN, ALL, null)).toEqual({ start: 42.4, end: 62.4 });
    expect(spanAfter("a", { start: 1, end: 21 }, ALL, null)).toEqual({ start: 0, end: 20 });
    expect(spanAfter("d", { start: 79, end: 99 }, ALL, null)).toEqual({ start: 80, end: 100 });
  });

  it("never shows more than there is", () => {
    expect(spanAfter("s", { start: 2, end: 98 }, ALL, null)).toEqual(ALL);
  });

  it("fits what is chosen with room around it, or all", () => {
    expect(spanAfter("f", SHOWN, ALL, { start: 10, end: 14 })).toEqual({ start: 6, end: 18 });
    expect(spanAfter("f", SHOWN, ALL, null)).toEqual(ALL);
    expect(spanAfter("0", SHOWN, ALL, { start: 10, end: 14 })).toEqual(ALL);
  });

  it("leaves other keys alone", () => {
    expect(spanAfter("x", SHOWN, ALL, null)).toBeNull();
  });
});
