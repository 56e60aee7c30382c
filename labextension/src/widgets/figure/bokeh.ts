// BokehJS, brought from Python once a page and version, and kept off `window`: pages with a BokehJS of their own keep it.
import type { Channel } from "../channel";
import type { Arrays } from "../transfer";

export type Buffers = Map<string, ArrayBuffer>;

export interface BokehModel {
  readonly type: string;
  readonly attributes: Record<string, unknown>;
  /** Of data sources. */
  get_column?(name: string): ArrayLike<number> | null;
  setv(values: Record<string, unknown>, options: { sync: boolean }): void;
}

/** `model` and `attr` say what changed, where it is an attribute of a model. */
export interface DocumentEvent {
  readonly sync: boolean;
  readonly model?: BokehModel;
  readonly attr?: string;
}

export interface BokehDocument {
  on_change(callback: (event: DocumentEvent) => void): void;
  remove_on_change(callback: (event: DocumentEvent) => void): void;
  create_json_patch(events: DocumentEvent[]): { events: unknown[] };
  apply_json_patch(patch: unknown, buffers: Buffers): void;
  get_model_by_id(id: string): BokehModel | null;
  get_model_by_name(name: string): BokehModel | null;
}

export interface BokehViews {
  clear(): void;
}

export interface Bokeh {
  Document: { from_json(json: unknown, events?: unknown[], buffers?: Buffers): BokehDocument };
  embed: { add_document_standalone(document: BokehDocument, element: HTMLElement): Promise<BokehViews> };
}

const KEY = Symbol.for("trt-lab.bokeh");

type Loaded = Map<string, Promise<Bokeh>>;

/** Every widget is a module of its own, so what they share hangs on the page. */
function loaded(): Loaded {
  const page = globalThis as { [KEY]?: Loaded };
  page[KEY] ??= new Map();
  return page[KEY];
}

/** BokehJS of a version; a load that failed is tried anew by the next figure. */
export function loadBokeh(version: string, channel: Channel): Promise<Bokeh> {
  const all = loaded();
  let bokeh = all.get(version);
  if (!bokeh) {
    bokeh = transferBokeh(version, channel);
    all.set(version, bokeh);
    bokeh.catch(() => all.delete(version));
  }
  return bokeh;
}

async function transferBokeh(version: string, channel: Channel): Promise<Bokeh> {
  const { arrays } = await channel.request("figure.bokeh", { version }, { timeout: null });
  const zipped = arrays.gzip?.data;
  if (!zipped) throw new Error("the kernel sent no BokehJS");
  const bytes = new Uint8Array(zipped.buffer as ArrayBuffer, zipped.byteOffset, zipped.byteLength);
  const code = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  // A classic script hangs what it makes on `this`; as a module, with a `this` of its own, it leaves `window` alone.
  const parts = ["const root = {};\n(function () {\n", code, "\n}).call(root);\nexport default root.Bokeh;\n"];
  const url = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }));
  try {
    const module = (await import(/* webpackIgnore: true */ url)) as { default: { require(name: string): unknown } };
    return {
      Document: (module.default.require("document/document") as Bokeh).Document,
      embed: (module.default as unknown as Bokeh).embed,
    };
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The binary columns that came with a message, by the ids that it refers to them by. */
export function buffersOf(arrays: Arrays): Buffers {
  return new Map(
    Object.entries(arrays).map(([id, { data }]) => {
      const { buffer, byteOffset, byteLength } = data;
      return [id, (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength)];
    }),
  );
}

/** A patch as JSON, its binary parts put aside as arrays. */
export function detachBuffers(patch: unknown): { patch: unknown; arrays: Arrays } {
  const arrays: Arrays = {};
  const text = JSON.stringify(patch, (_key, value: unknown) => {
    const buffer = (value as { buffer?: unknown } | null)?.buffer;
    if (!(buffer instanceof ArrayBuffer)) return value;
    const id = `b${Object.keys(arrays).length}`;
    arrays[id] = { data: new Uint8Array(buffer), shape: [buffer.byteLength] };
    return { id };
  });
  return { patch: JSON.parse(text), arrays };
}
