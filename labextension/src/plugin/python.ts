/**
 * The Python that the plugins run in a panel's kernel; nowhere else is there any.
 *
 * A path is untrusted text. It enters only through `literal`: JSON's string escapes are all Python string escapes too,
 * so whatever the name of the file, it stays one string.
 */

/** A string as a Python literal. */
export function literal(text: string): string {
  return JSON.stringify(text);
}

/** Shows the workbench on a model or record. `path`: see `kernelPath`. */
export function openCode(path: string): string {
  return [
    "from pathlib import Path",
    "from trt_lab import notebook",
    `notebook.open_panel(str(Path(${literal(path)}).expanduser()))`,
  ].join("\n");
}

/** Starts a build in the panel's session, as its Build button does; returns at once. */
export const BUILD_CODE = ["from trt_lab import notebook", "notebook.panel_session().start_build()"].join("\n");

/** Writes the notebook that repeats what was done in the panel. */
export function exportCode(path: string): string {
  return [
    "from pathlib import Path",
    "from trt_lab import notebook",
    `notebook.panel_session().export_notebook(str(Path(${literal(path)}).expanduser()))`,
  ].join("\n");
}

/** The first cell of a new notebook beside a model or record of this name. */
export function notebookCell(name: string, isRecord: boolean): string {
  return isRecord
    ? ["import trt_lab", "", `record = trt_lab.Record.open(${literal(name)})`, "record"].join("\n")
    : ["import trt_lab", "", `lab = trt_lab.Session(${literal(name)})`, "lab"].join("\n");
}

/**
 * The path of a file as a kernel sees it.
 *
 * @param root Folder that the server serves; "~" stands for the home folder. "" where the server does not tell.
 * @param localPath Path below it, with "/".
 * @returns An absolute path; without a root one relative to the file's folder, where its kernel was started.
 */
export function kernelPath(root: string, localPath: string): string {
  if (!root) {
    return `./${localPath.slice(localPath.lastIndexOf("/") + 1)}`;
  }
  return `${root.replace(/[\\/]+$/, "")}/${localPath}`;
}
