// Bundles each widget front end, src/widgets/<name>/index.ts, into ../trt_lab/widgets/static/<name>.js
// (one ES module a widget: anywidget loads it as text, so it can import nothing at run time).
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const source = join(import.meta.dirname, "src", "widgets");
const target = join(import.meta.dirname, "..", "trt_lab", "widgets", "static");

const entryPoints = Object.fromEntries(
  readdirSync(source, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(source, entry.name, "index.ts")))
    .map((entry) => [entry.name, join(source, entry.name, "index.ts")]),
);
mkdirSync(target, { recursive: true });
await build({
  entryPoints,
  outdir: target,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  loader: { ".css": "text", ".svg": "text" },
  logLevel: "info",
});
