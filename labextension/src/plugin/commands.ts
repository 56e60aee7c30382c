import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import { IDocumentManager } from "@jupyterlab/docmanager";
import { FileDialog, IDefaultFileBrowser, IFileBrowserFactory } from "@jupyterlab/filebrowser";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import type { ReadonlyPartialJSONObject } from "@lumino/coreutils";
import { IWorkbenchTracker, type WorkbenchDocument } from "./documents";
import { modelIcon } from "./icons";
import { COMMANDS, FACTORY, isOpenable } from "./names";
import { freeNotebookPath, writeNotebook } from "./notebooks";
import { BUILD_CODE, exportCode } from "./python";

/** What can be done with models and workbenches; the palette, launcher and menus refer to these. */
export const commands: JupyterFrontEndPlugin<void> = {
  id: "trt-lab:commands",
  description: "The commands of trt-lab.",
  autoStart: true,
  requires: [IWorkbenchTracker, IDocumentManager],
  optional: [IFileBrowserFactory, IDefaultFileBrowser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: IWorkbenchTracker,
    documents: IDocumentManager,
    browsers: IFileBrowserFactory | null,
    defaultBrowser: IDefaultFileBrowser | null,
    translator: ITranslator | null,
  ) => {
    const trans = (translator ?? nullTranslator).load("trt-lab");
    const contents = app.serviceManager.contents;

    /** The workbench that has the focus, or had it last. */
    const current = (): WorkbenchDocument | null => {
      const widget = app.shell.currentWidget;
      return widget && tracker.has(widget) ? (widget as WorkbenchDocument) : tracker.currentWidget;
    };
    const selected = (): string[] => {
      const browser = browsers?.tracker.currentWidget ?? defaultBrowser;
      const items = browser ? Array.from(browser.selectedItems()) : [];
      return items.map((item) => item.path).filter((path) => isOpenable(path));
    };
    /** Label in the palette, where all of ours start alike; short elsewhere. */
    const label = (text: string) => (args: ReadonlyPartialJSONObject) => (args.isPalette ? `TRT Lab: ${text}` : text);
    const openDocument = (path: string) => documents.openOrReveal(path, FACTORY);

    app.commands.addCommand(COMMANDS.open, {
      label: (args) => (args.isLauncher ? trans.__("Open Model") : label(trans.__("Open Model…"))(args)),
      caption: trans.__("Open an ONNX model or a record in the workbench"),
      icon: (args) => (args.isPalette ? undefined : modelIcon),
      describedBy: {
        args: { type: "object", properties: { path: { type: "string", description: trans.__("Model or record") } } },
      },
      execute: async (args) => {
        if (typeof args.path === "string") {
          openDocument(args.path);
          return;
        }
        const answer = await FileDialog.getOpenFiles({
          manager: documents,
          defaultPath: (browsers?.tracker.currentWidget ?? defaultBrowser)?.model.path,
          title: trans.__("Open an ONNX Model or a Record"),
          filter: (model) => (model.type === "directory" || isOpenable(model.name) ? {} : null),
          label: trans.__("ONNX models (.onnx) and records (.trtlab)"),
        });
        for (const model of answer.button.accept ? (answer.value ?? []) : []) {
          if (isOpenable(model.name)) {
            openDocument(model.path);
          }
        }
      },
    });

    app.commands.addCommand(COMMANDS.openSelected, {
      label: trans.__("Open in TRT Lab"),
      icon: modelIcon,
      isVisible: () => selected().length > 0,
      execute: () => {
        for (const path of selected()) {
          openDocument(path);
        }
      },
    });

    app.commands.addCommand(COMMANDS.openInNotebook, {
      label: label(trans.__("Open in Notebook")),
      caption: trans.__("Make a notebook beside the model that shows the same workbench"),
      isEnabled: (args) => (args.isContextMenu ? selected().length > 0 : current() !== null),
      isVisible: (args) => !args.isContextMenu || selected().length > 0,
      execute: async (args) => {
        const path = args.isContextMenu ? selected()[0] : current()?.context.path;
        if (path) {
          documents.openOrReveal(await writeNotebook(contents, path));
        }
      },
    });

    app.commands.addCommand(COMMANDS.build, {
      label: label(trans.__("Build")),
      caption: trans.__("Build and run the engine of the current workbench"),
      isEnabled: () => current() !== null,
      execute: async () => report(await current()?.content.run(BUILD_CODE)),
    });

    app.commands.addCommand(COMMANDS.exportNotebook, {
      label: label(trans.__("Export as Notebook")),
      caption: trans.__("Write a notebook that repeats what was done in the current workbench"),
      isEnabled: () => current() !== null,
      execute: async () => {
        const workbench = current();
        if (!workbench) {
          return;
        }
        const target = await freeNotebookPath(contents, workbench.context.path, " trt-lab");
        const problem = await workbench.content.run(
          exportCode(workbench.content.pathInKernel(contents.localPath(target))),
        );
        report(problem);
        if (!problem) {
          documents.openOrReveal(target);
        }
      },
    });

    app.commands.addCommand(COMMANDS.restart, {
      label: label(trans.__("Restart Kernel of the Workbench")),
      isEnabled: () => current() !== null,
      execute: () => current()?.content.restart(),
    });

    const items = ".jp-DirListing-content .jp-DirListing-item";
    const menu = app.contextMenu;
    menu.addItem({ command: COMMANDS.openSelected, selector: `${items}[data-isdir="true"]`, rank: 1.5 });
    menu.addItem({
      command: COMMANDS.openInNotebook,
      args: { isContextMenu: true },
      selector: `${items}[data-isdir="false"]`,
      rank: 2.5,
    });
  },
};

/** Tells the user what went wrong, in one line. */
function report(problem: string | null | undefined): void {
  if (problem) {
    Notification.error(problem, { autoClose: false });
  }
}
