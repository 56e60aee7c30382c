// Generated from trt_lab/wire.py by labextension/scripts/generate_wire.py. Do not edit.

/** BokehJS itself. Answered with the array `gzip` (uint8). */
export interface BokehRequest {
  kind: "figure.bokeh";
  version: string;
}

/**
 * The node card.
 *
 * Attributes:
 *     made_up: The node is nameless in the file, so its id was made up.
 *     layers: Engine layers that the node went into, as lines of text.
 *     can_keep: Whether "keep FP32" makes sense here.
 */
export interface Card {
  id: string;
  what: "node" | "scope" | "tensor";
  title: string;
  subtitle: string;
  made_up: boolean;
  facts: CardFact[];
  inputs: CardTensor[];
  outputs: CardTensor[];
  layers: string[];
  nested: Crumb[];
  can_keep: boolean;
  kept: boolean;
}

/** A line of the card: attribute, time, number of nodes. */
export interface CardFact {
  name: string;
  value: string;
}

/** What the node card shows of a node, tensor or scope. */
export interface CardRequest {
  kind: "graph.card";
  item: string;
}

/**
 * One input or output on the card.
 *
 * Attributes:
 *     declared: The shape stored in the file, where it contradicts `shape`.
 *     verdict, figure: What the newest diff says about it.
 *     refusal: Why it cannot be probed, "" if it can.
 *     can_probe: Whether this graph is one to probe at all; nothing is said of it where it is not.
 *     safe, sight: Whether a probe leaves the engine as it is, and in words; None and "" while that is not known.
 */
export interface CardTensor {
  id: string;
  name: string;
  type: string;
  declared: string | null;
  role: "input" | "output" | "initializer" | "intermediate";
  other_ends: string[];
  probed: boolean;
  refusal: string;
  can_probe: boolean;
  safe: boolean | null;
  sight: string;
  verdict: "none" | "same" | "differs" | "not_comparable";
  figure: string;
}

/**
 * How the items of a scene are coloured.
 *
 * Arrays, a value an item: `slot` (int16, -1 none; index into a palette of the front end for categories), `level`
 * (float32 from 0 to 1, NaN none; for scales), `mark` (uint8, index into `marks`), `probed`, `kept`, `safe` (uint8;
 * `safe`: a node one of whose outputs can be probed without changing the engine).
 * Under a collapsed scope the worst of what it holds counts.
 *
 * Attributes:
 *     figures: What to write in the second line of an item instead of its detail, "" for none.
 *     scale: Set for errors and `time`: labels of its low and high end.
 *     safe, hidden: Numbers of tensors that are safe to probe, and of those that are not; None while not known.
 *     missing: Why there is nothing to show yet, "" if there is.
 */
export interface Colours {
  by: "type" | "error" | "local" | "accumulated" | "time" | "precision";
  legend: LegendEntry[];
  scale: [string, string] | null;
  marks: ("none" | "same" | "differs" | "not_comparable")[];
  figures: string[];
  missing: string;
  safe: number | null;
  hidden: number | null;
}

/** Colours, marks or what cards say changed. */
export interface ColoursChanged {
  kind: "graph.colours_changed";
}

/** Colours and marks of a scene that was received before. */
export interface ColoursRequest {
  kind: "graph.colours";
  graph: string;
  expanded: string[];
  by: "type" | "error" | "local" | "accumulated" | "time" | "precision";
}

/**
 * One column of a table.
 *
 * Attributes:
 *     format: How cells are written: `name` is elided in the middle, `figure` takes 4 significant digits,
 *         `share` a number from 0 to 1 as a percentage with a bar, `verdict` a mark with its word.
 *     unit: Written small in the header.
 *     help: What the column means, one line.
 */
export interface Column {
  name: string;
  label: string;
  format: "text" | "name" | "integer" | "figure" | "share" | "verdict" | "yes";
  unit: string;
  help: string;
  width: number;
}

/** One step of the way to the graph shown: a graph path and what to call it. */
export interface Crumb {
  graph: string;
  label: string;
}

/** The request was carried out; there is nothing to tell. */
export interface Done {
}

/** Another figure is shown: ask for it. */
export interface FigureChanged {
  kind: "figure.changed";
}

/** Arrays: the binary columns, by the ids that `item` refers to them by. */
export interface FigureItem {
  item: unknown;
}

/** A change made in the browser. */
export interface FigurePatchRequest {
  kind: "figure.patch";
  patch: unknown;
}

/** A change made in Python. Arrays as in `FigureItem`. */
export interface FigurePatched {
  kind: "figure.patched";
  patch: unknown;
}

/** The figure as Bokeh's `json_item`. */
export interface FigureRequest {
  kind: "figure.item";
}

/** Another model is open: ask for the scene. */
export interface GraphChanged {
  kind: "graph.changed";
}

/** One line of the search results. */
export interface Hit {
  what: "node" | "tensor" | "scope";
  id: string;
  label: string;
  detail: string;
}

/** Search results, best first. */
export interface Hits {
  hits: Hit[];
}

/** Keeps a node (or the nodes of a scope) in FP32, or gives it back. */
export interface KeepRequest {
  kind: "graph.keep";
  node: string;
  on: boolean;
}

/** One colour of the legend. */
export interface LegendEntry {
  label: string;
  slot: number;
}

/** Is the kernel there? Every channel answers it. */
export interface PingRequest {
  kind: "ping";
}

/** `item` is the id of the box that stands for what was asked for. */
export interface Place {
  graph: string;
  open: string[];
  item: string;
}

/** Where a node, scope or tensor is: which graph to show, which scopes to open. */
export interface PlaceRequest {
  kind: "graph.place";
  item: string;
}

/** Puts a probe on a tensor, or takes it off. */
export interface ProbeRequest {
  kind: "graph.probe";
  tensor: string;
  on: boolean;
}

/** `index` is None where the filter hides the row. */
export interface RowPlace {
  index: number | null;
}

/** Where a row stands under a query. */
export interface RowPlaceRequest {
  kind: "table.place";
  query?: TableQuery;
  key: string;
}

/** Cells by row, in the order of the columns; `keys` identify the rows. */
export interface Rows {
  version: number;
  total: number;
  unfiltered: number;
  start: number;
  keys: string[];
  cells: ((string | number | boolean | null)[])[];
}

/** Rows `start` to `start + count` under a query. */
export interface RowsRequest {
  kind: "table.rows";
  query?: TableQuery;
  start: number;
  count: number;
}

/**
 * Boxes and edges of one graph.
 *
 * Arrays: `x y w h` (float32, an item each; x, y is the upper left corner), `kind` (uint8, index into
 * `kinds`), `count` (int32, nodes in a scope, else 1), `parent` (int32, the frame an item stands in, -1 at the
 * top), `peer` (int32, for portals the item at the other end, else -1), `op_class` (uint8, index into `op_classes`);
 * `edge_from edge_to` (int32, items), `edge_tensor` (int32, index into `tensors`), `edge_start` (int32, an edge each
 * and one more: where its points start), `point_x point_y` (float32, the points of all edges, ends included).
 *
 * Attributes:
 *     ids: An id for each item: node, scope path, tensor (inputs, outputs, portals).
 *     labels, details: First and second line in each box.
 *     tensor_labels: Type and shape of each tensor, for its edges.
 *     nested: Paths of the graphs inside a node, by node id.
 *     notes: What the reader of the model has to say, a line each.
 */
export interface Scene {
  graph: string;
  title: string;
  expanded: string[];
  crumbs: Crumb[];
  kinds: ("frame" | "scope" | "node" | "input" | "output" | "outer" | "portal")[];
  op_classes: string[];
  ids: string[];
  labels: string[];
  details: string[];
  tensors: string[];
  tensor_labels: string[];
  nested: Record<string, string[]>;
  notes: string[];
  nodes: number;
}

/**
 * The drawing of one graph.
 *
 * Attributes:
 *     expanded: Scopes to draw open; None leaves the choice to Python.
 *     open: Scopes to draw open besides.
 */
export interface SceneRequest {
  kind: "graph.scene";
  graph?: string;
  expanded?: string[] | null;
  open?: string[];
}

/** Nodes, tensors and scopes that match. */
export interface SearchRequest {
  kind: "graph.search";
  query: string;
  limit?: number;
}

/** A text to copy. */
export interface Snippet {
  label: string;
  text: string;
}

/** Rows or columns are new: ask for them. */
export interface TableChanged {
  kind: "table.changed";
}

/** Order and filter of the rows. */
export interface TableQuery {
  sort?: string;
  descending?: boolean;
  filter?: string;
}

/** Takes back the newest probe or kept node. */
export interface UndoRequest {
  kind: "graph.undo";
}

/** Kind of each request, what it holds, and what it is answered with. */
export interface Requests {
  "ping": { request: PingRequest; reply: Done };
  "graph.scene": { request: SceneRequest; reply: Scene };
  "graph.place": { request: PlaceRequest; reply: Place };
  "graph.card": { request: CardRequest; reply: Card };
  "graph.search": { request: SearchRequest; reply: Hits };
  "graph.colours": { request: ColoursRequest; reply: Colours };
  "graph.probe": { request: ProbeRequest; reply: Done };
  "graph.keep": { request: KeepRequest; reply: Done };
  "graph.undo": { request: UndoRequest; reply: Done };
  "table.rows": { request: RowsRequest; reply: Rows };
  "table.place": { request: RowPlaceRequest; reply: RowPlace };
  "figure.bokeh": { request: BokehRequest; reply: Done };
  "figure.item": { request: FigureRequest; reply: FigureItem };
  "figure.patch": { request: FigurePatchRequest; reply: Done };
}

/** Kind of each event. */
export interface Events {
  "graph.changed": GraphChanged;
  "graph.colours_changed": ColoursChanged;
  "table.changed": TableChanged;
  "figure.patched": FigurePatched;
  "figure.changed": FigureChanged;
}

export type ItemKind = "frame" | "scope" | "node" | "input" | "output" | "outer" | "portal";

export type ColourBy = "type" | "error" | "local" | "accumulated" | "time" | "precision";

export type Mark = "none" | "same" | "differs" | "not_comparable";

export const PART_BYTES = 983040;
export const MAX_PARTS = 274;
export const DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"] as const;
