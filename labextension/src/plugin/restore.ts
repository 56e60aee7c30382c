import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { IWorkbenchTracker } from "./documents";
import { FACTORY } from "./names";

/** Brings the workbenches back after the page is loaded again; they connect to their kernels if those still run. */
export const restore: JupyterFrontEndPlugin<void> = {
  id: "trt-lab:restore",
  description: "Restores workbenches after a page reload.",
  autoStart: true,
  requires: [IWorkbenchTracker, ILayoutRestorer],
  activate: (_: JupyterFrontEnd, tracker: IWorkbenchTracker, restorer: ILayoutRestorer) => {
    void restorer.restore(tracker, {
      command: "docmanager:open",
      args: (widget) => ({ path: widget.context.path, factory: FACTORY }),
      name: (widget) => widget.context.path,
    });
  },
};
