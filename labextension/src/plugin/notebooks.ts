/** Notebooks beside a model. */
import { PathExt } from "@jupyterlab/coreutils";
import type { Contents } from "@jupyterlab/services";
import { RECORD_EXTENSION } from "./names";
import { notebookCell } from "./python";

/**
 * A path in the folder of `path` that no file has: the same name with `suffix` and `.ipynb`, numbered when taken.
 */
export async function freeNotebookPath(contents: Contents.IManager, path: string, suffix = ""): Promise<string> {
  const folder = PathExt.dirname(path);
  const stem = PathExt.basename(path).replace(/\.(onnx|trtlab)$/, "") + suffix;
  const listing: Contents.IModel[] = (await contents.get(folder, { type: "directory", content: true })).content;
  const taken = new Set(listing.map((entry) => entry.name));
  let name = `${stem}.ipynb`;
  for (let number = 1; taken.has(name); number += 1) {
    name = `${stem}-${number}.ipynb`;
  }
  return folder ? `${folder}/${name}` : name;
}

/** Writes a new notebook that opens the model or record. Returns its path. */
export async function writeNotebook(contents: Contents.IManager, path: string): Promise<string> {
  const target = await freeNotebookPath(contents, path);
  const source = notebookCell(PathExt.basename(path), path.endsWith(RECORD_EXTENSION));
  const cell = { cell_type: "code", id: "trt-lab-open", source, metadata: {}, outputs: [], execution_count: null };
  const content = { cells: [cell], metadata: {}, nbformat: 4, nbformat_minor: 5 };
  await contents.save(target, { type: "notebook", format: "json", content });
  return target;
}
