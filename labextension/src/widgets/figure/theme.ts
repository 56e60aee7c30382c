// The colours of a figure in the two themes. The values come from Python (trt_lab/views/theme.py).
import type { BokehDocument } from "./bokeh";

/** Model id → property → [light, dark]. */
export type ThemeTable = Record<string, Record<string, [unknown, unknown]>>;

/** Colours a figure; Python is not told, so its views may differ. */
export function paint(figure: BokehDocument, table: ThemeTable, dark: boolean): void {
  for (const [id, properties] of Object.entries(table)) {
    const values = Object.entries(properties).map(([name, [light, night]]) => [name, dark ? night : light]);
    figure.get_model_by_id(id)?.setv(Object.fromEntries(values), { sync: false });
  }
}
