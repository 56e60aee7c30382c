import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { CATEGORY, COMMANDS } from "./names";

/** The commands in the palette. */
export const palette: JupyterFrontEndPlugin<void> = {
  id: "trt-lab:palette",
  description: "Adds trt-lab's commands to the command palette.",
  autoStart: true,
  requires: [ICommandPalette],
  activate: (_: JupyterFrontEnd, palette: ICommandPalette) => {
    const { open, build, exportNotebook, openInNotebook, restart } = COMMANDS;
    for (const command of [open, build, exportNotebook, openInNotebook, restart]) {
      palette.addItem({ command, category: CATEGORY, args: { isPalette: true } });
    }
  },
};
