/** Names that JupyterLab knows trt-lab's parts by. */

/** The document factory; what "Open With" shows. */
export const FACTORY = "TRT Lab";

export const ONNX = "onnx";
export const RECORD = "trtlab";
export const ONNX_EXTENSION = ".onnx";
export const RECORD_EXTENSION = ".trtlab";

export const CATEGORY = "TRT Lab";

export const COMMANDS = {
  open: "trt-lab:open",
  openSelected: "trt-lab:open-selected",
  openInNotebook: "trt-lab:open-in-notebook",
  build: "trt-lab:build",
  exportNotebook: "trt-lab:export-notebook",
  restart: "trt-lab:restart",
} as const;

/** Whether the workbench opens a file or folder of this name. */
export function isOpenable(name: string): boolean {
  return name.endsWith(ONNX_EXTENSION) || name.endsWith(RECORD_EXTENSION);
}
