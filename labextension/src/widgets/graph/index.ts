// Entry of the graph widget: anywidget calls `render` for each view.
import base from "../base.css";
import { h } from "../dom";
import { watchNarrow } from "../narrow";
import css from "./graph.css";
import { type GraphModel, GraphView } from "./view";

interface Render {
  model: GraphModel;
  el: HTMLElement;
  signal: AbortSignal;
}

export default {
  render({ model, el, signal }: Render): void {
    const view = new GraphView(model, signal);
    // Geometry of the canvas for tests and tools: what is drawn where.
    Object.assign(view.element, { locate: (id: string) => view.locate(id) });
    el.classList.add("trt-host");
    el.append(h("style", { text: base + css }), view.element);
    view.attach();
    watchNarrow(el, signal);
  },
};
