import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ILauncher } from "@jupyterlab/launcher";
import { CATEGORY, COMMANDS } from "./names";

/** The card in the launcher. */
export const launcher: JupyterFrontEndPlugin<void> = {
  id: "trt-lab:launcher",
  description: "Adds a card to the launcher.",
  autoStart: true,
  requires: [ILauncher],
  activate: (_: JupyterFrontEnd, launcher: ILauncher) => {
    launcher.add({ command: COMMANDS.open, category: CATEGORY, rank: 1, args: { isLauncher: true } });
  },
};
