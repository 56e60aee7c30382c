import { IJupyterWidgetRegistry } from "@jupyter-widgets/base";
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import type { IRenderMime, IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import { Panel, Widget } from "@lumino/widgets";

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const HTML = "text/html";

/** Marks the still views that trt_lab puts beside its widgets (trt_lab/widgets/still.py). */
const MARK = 'class="trt-lab-still"';

/**
 * Shows the still view of our widgets in notebooks whose kernel no longer has them.
 *
 * JupyterLab prefers a widget to the `text/html` beside it even where there is no widget any more, and ipywidgets then
 * writes an error in its place. Outputs that are not ours are left as they are.
 */
export const still: JupyterFrontEndPlugin<void> = {
  id: "trt-lab:still",
  description: "Shows saved outputs of trt-lab where their widgets are gone.",
  autoStart: true,
  requires: [INotebookTracker],
  // The widget registry is not used, but its plugin must run first.
  optional: [ITranslator, IJupyterWidgetRegistry],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker, translator: ITranslator | null) => {
    const trans = (translator ?? nullTranslator).load("trt-lab");
    const text = trans.__("Kernel gone: run the cell again for the live view.");
    tracker.widgetAdded.connect((_, panel) => watch(panel, text));
  },
};

/**
 * Extends the widget renderers that a notebook will make.
 *
 * The renderers themselves, not their factory: ipywidgets replaces its factory once the kernel is there, and finds
 * the renderers made before by their class.
 */
function watch(panel: NotebookPanel, text: string): void {
  const { rendermime } = panel.content;
  const create = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = (mimeType) => {
    const renderer = create(mimeType);
    return mimeType === WIDGET_VIEW && renderer instanceof Panel ? extend(renderer, panel, text) : renderer;
  };
}

function extend(
  renderer: Panel & IRenderMime.IRenderer,
  panel: NotebookPanel,
  text: string,
): Panel & IRenderMime.IRenderer {
  const renderLive = renderer.renderModel.bind(renderer);
  renderer.renderModel = async (model) => {
    const html = model.data[HTML];
    if (typeof html !== "string" || !html.includes(MARK)) {
      return renderLive(model);
    }
    const show = () => showStill(renderer, panel.content.rendermime, model, text);
    const { sessionContext } = panel;
    void sessionContext.ready.then(() => {
      if (!sessionContext.session?.kernel) {
        void show(); // ipywidgets waits for a kernel for ever
      }
    });
    await renderLive(model);
    // What ipywidgets leaves where it found no model: a text, marked, and no view.
    if (renderer.hasClass("jupyter-widgets") && renderer.widgets.length === 0) {
      await show();
    }
  };
  return renderer;
}

async function showStill(
  renderer: Panel,
  rendermime: IRenderMimeRegistry,
  model: IRenderMime.IMimeModel,
  text: string,
): Promise<void> {
  if (renderer.isDisposed) {
    return;
  }
  const note = new Widget();
  note.addClass("trt-lab-Still-note");
  note.node.setAttribute("role", "note");
  note.node.textContent = text;
  const view = rendermime.createRenderer(HTML);
  renderer.node.textContent = "";
  renderer.removeClass("jupyter-widgets");
  renderer.addWidget(note);
  renderer.addWidget(view);
  await view.renderModel(model);
}
