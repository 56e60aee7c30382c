/** The plugins of trt-lab, and nothing else. */
import type { JupyterFrontEndPlugin } from "@jupyterlab/application";

const plugins: JupyterFrontEndPlugin<unknown>[] = [];

export default plugins;
