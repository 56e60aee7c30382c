// Front end of trt_lab.widgets.figure.FigureWidget.
import type { RenderProps } from "@anywidget/types";
import { Channel } from "../channel";
import { watchKernel } from "../kernel";
import css from "./figure.css";
import { FigureView } from "./view";

const STYLE_ID = "trt-lab-figure-style";

function addStyle(): void {
  if (document.getElementById(STYLE_ID)) return;
  const style = document.createElement("style");
  style.id = STYLE_ID;
  style.textContent = css;
  document.head.append(style);
}

function render({ model, el, signal }: RenderProps): void {
  addStyle();
  const channel = new Channel(model, signal);
  const view = new FigureView(channel, el, signal);
  watchKernel(model, channel, signal, (text) => view.tell(text));
  void view.load();
}

export default { render };
