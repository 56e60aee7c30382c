/** The plugins of trt-lab, and nothing else. */
import { commands } from "./plugin/commands";
import { documents } from "./plugin/documents";
import { launcher } from "./plugin/launcher";
import { palette } from "./plugin/palette";
import { restore } from "./plugin/restore";
import { still } from "./plugin/still";

export default [documents, commands, launcher, palette, restore, still];
