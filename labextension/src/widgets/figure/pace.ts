// When a change made in the browser is sent to Python: at once in the next frame, or, for a range that is being panned
// or zoomed, when it has come to rest; a long pan is told of now and then.
import type { DocumentEvent } from "./bokeh";

/** A range at rest for so long is sent, in ms. */
export const REST = 70;
/** A range in motion is sent this often, in ms. */
export const MOVING = 240;

export class Pace {
  readonly #send: (events: DocumentEvent[]) => void;
  #events: DocumentEvent[] = [];
  #frame = 0;
  #timer = 0;
  #since = 0;

  constructor(send: (events: DocumentEvent[]) => void) {
    this.#send = send;
  }

  add(event: DocumentEvent): void {
    if (this.#events.length === 0) this.#since = performance.now();
    // Of an attribute the last value counts.
    this.#events = this.#events.filter((other) => !sameAttribute(other, event));
    this.#events.push(event);
    if (!ofRange(event)) this.#frame ||= requestAnimationFrame(() => this.#flush());
    if (this.#frame) return;
    clearTimeout(this.#timer);
    const left = this.#since + MOVING - performance.now();
    this.#timer = window.setTimeout(() => this.#flush(), Math.max(0, Math.min(REST, left)));
  }

  clear(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#frame = this.#timer = 0;
    this.#events = [];
  }

  #flush(): void {
    const events = this.#events;
    this.clear();
    if (events.length > 0) this.#send(events);
  }
}

const ofRange = ({ model, attr }: DocumentEvent): boolean =>
  model?.type === "Range1d" && (attr === "start" || attr === "end");

const sameAttribute = (one: DocumentEvent, other: DocumentEvent): boolean =>
  one.model !== undefined && one.attr !== undefined && one.model === other.model && one.attr === other.attr;
