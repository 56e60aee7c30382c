/** Jupyter widgets outside a notebook. */
import type { WidgetRenderer } from "@jupyter-widgets/jupyterlab-manager";
import type { DocumentRegistry } from "@jupyterlab/docregistry";
import type { INotebookModel } from "@jupyterlab/notebook";
import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import type { IDisposable } from "@lumino/disposable";

/** A widget manager that shows the widgets of a document's kernel. */
export interface AttachedManager extends IDisposable {
  /** Whether it is the document's own and follows its kernels; else it is that of another document on this kernel. */
  readonly owned: boolean;
}

/**
 * Lets outputs that are rendered with `rendermime` show the widgets of the document's kernel.
 *
 * JupyterLab attaches a widget manager to notebooks and consoles only, and the list of widget modules is private to
 * ipywidgets; `registerWidgetManager` is the one door. It registers after a while and does not say when, but just
 * before it does, it hands the manager to each existing renderer: the one given here is there to be told.
 *
 * @returns Takes the manager away again. Rejects when ipywidgets' JupyterLab extension is not there.
 */
export async function attachWidgetManager(
  context: DocumentRegistry.IContext<DocumentRegistry.IModel>,
  rendermime: IRenderMimeRegistry,
): Promise<AttachedManager> {
  const { registerWidgetManager } = await import("@jupyter-widgets/jupyterlab-manager");
  return new Promise((resolve) => {
    const listener = {
      set manager(manager: { context?: unknown }) {
        // A kernel shared with a notebook has the notebook's manager, which is not ours to end.
        const owned = manager.context === context;
        resolve(
          owned ? Object.assign(registration, { owned }) : { owned, isDisposed: false, dispose: () => undefined },
        );
      },
    };
    const registration = registerWidgetManager(
      context as DocumentRegistry.IContext<INotebookModel>,
      rendermime,
      [listener as unknown as WidgetRenderer][Symbol.iterator](),
    );
  });
}
