// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { BokehModel, DocumentEvent } from "./bokeh";
import { MOVING, Pace, REST } from "./pace";

const model = (type: string): BokehModel => ({ type, attributes: {}, setv: () => {} });
const RANGE = model("Range1d");
const change = (attr: string, of: BokehModel = RANGE): DocumentEvent => ({ sync: true, model: of, attr });

let sent: DocumentEvent[][];
let pace: Pace;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  pace = new Pace((events) => sent.push(events));
});
afterEach(() => void vi.useRealTimers());

describe("pace of what is sent to Python", () => {
  it("sends a range once it is at rest, with the last value of each end", () => {
    const last = [change("start"), change("end")];
    for (const event of [change("start"), change("end"), ...last]) pace.add(event);
    vi.advanceTimersByTime(REST - 1);
    expect(sent).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(sent).toEqual([last]);
    expect(sent[0]?.[0]).toBe(last[0]);
  });

  it("tells of a long pan now and then", () => {
    for (let at = 0; at < MOVING * 2; at += 20) {
      pace.add(change("start"));
      vi.advanceTimersByTime(20);
    }
    expect(sent.length).toBe(2);
  });

  it("sends a tap in the next frame, and the range with it", () => {
    pace.add(change("start"));
    pace.add(change("indices", model("Selection")));
    vi.advanceTimersByTime(20);
    expect(sent.map((events) => events.map(({ attr }) => attr))).toEqual([["start", "indices"]]);
  });

  it("keeps changes that are of no attribute", () => {
    pace.add({ sync: true });
    pace.add({ sync: true });
    vi.advanceTimersByTime(20);
    expect(sent[0]?.length).toBe(2);
  });

  it("sends nothing after it was cleared", () => {
    pace.add(change("start"));
    pace.clear();
    vi.advanceTimersByTime(1000);
    expect(sent).toEqual([]);
  });
});
