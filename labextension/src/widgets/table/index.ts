// Entry of the table widget: anywidget calls `render` for each view.
import base from "../base.css";
import { h } from "../dom";
import css from "./table.css";
import { type TableModel, TableView } from "./view";

interface Render {
  model: TableModel;
  el: HTMLElement;
  signal: AbortSignal;
}

export default {
  render({ model, el, signal }: Render): void {
    const view = new TableView(model, signal);
    el.classList.add("trt-host");
    el.append(h("style", { text: base + css }), view.element);
    view.attach();
  },
};
