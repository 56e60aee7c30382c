// Keys of a figure that has a range along time, as in Perfetto: W S zoom, A D pan, F fits what is chosen, 0 shows all.
// What they move is found by the names that trt_lab/views/timeline.py gives.
import type { BokehDocument } from "./bokeh";

const RANGE = "time";
const SOURCE = "layers";
const ZOOM = 0.8;
const PAN = 0.12;
/** Room left on either side of what F fits, in widths of it. */
const AROUND = 1;

export interface Span {
  start: number;
  end: number;
}

/** The span shown after a key, kept within `all`; null where the key means nothing. */
export function spanAfter(key: string, shown: Span, all: Span, chosen: Span | null): Span | null {
  const width = shown.end - shown.start;
  const zoomed = (factor: number): Span => {
    const middle = (shown.start + shown.end) / 2;
    return { start: middle - (width * factor) / 2, end: middle + (width * factor) / 2 };
  };
  const moved = (by: number): Span => ({ start: shown.start + by, end: shown.end + by });
  switch (key) {
    case "w":
    case "+":
    case "=":
      return within(zoomed(ZOOM), all);
    case "s":
    case "-":
      return within(zoomed(1 / ZOOM), all);
    case "a":
    case "ArrowLeft":
      return within(moved(-PAN * width), all);
    case "d":
    case "ArrowRight":
      return within(moved(PAN * width), all);
    case "f": {
      if (!chosen) return all;
      const room = AROUND * (chosen.end - chosen.start);
      return within({ start: chosen.start - room, end: chosen.end + room }, all);
    }
    case "0":
    case "Home":
      return all;
    default:
      return null;
  }
}

/** `span` moved into `all`, and cut where it is wider. */
function within(span: Span, all: Span): Span {
  const width = Math.min(span.end - span.start, all.end - all.start);
  const start = Math.min(Math.max(span.start, all.start), all.end - width);
  return { start, end: start + width };
}

/** Gives a figure on the page its keys (what has the focus is Bokeh's own element in it); one without a range along time gets none. Returns what takes them away. */
export function listenToKeys(figure: BokehDocument, host: HTMLElement): () => void {
  const range = figure.get_model_by_name(RANGE);
  const bounds = range?.attributes.bounds as [number, number] | undefined;
  if (!range || !bounds) return () => {};
  const all = { start: bounds[0], end: bounds[1] };
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", "Timeline. Keys: W S zoom, A D pan, F fits the chosen layer, 0 shows all.");
  host.dataset.lmSuppressShortcuts = "true";
  const stop = new AbortController();
  const { signal } = stop;
  host.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { start, end } = range.attributes as unknown as Span;
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      const next = spanAfter(key, { start, end }, all, chosenSpan(figure));
      if (!next) return;
      event.preventDefault();
      event.stopPropagation();
      range.setv({ ...next }, { sync: true });
    },
    { signal },
  );
  return () => stop.abort();
}

/** From the start of the first chosen bar to its end. */
function chosenSpan(figure: BokehDocument): Span | null {
  const source = figure.get_model_by_name(SOURCE);
  const index = (source?.attributes.selected as { indices?: number[] } | undefined)?.indices?.[0];
  if (!source?.get_column || index === undefined) return null;
  const [start, end] = [source.get_column("left")?.[index], source.get_column("right")?.[index]];
  return start === undefined || end === undefined ? null : { start, end };
}
