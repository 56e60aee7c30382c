"""What is sent between the kernel and the browser.

The one source of these shapes: `labextension/scripts/generate_wire.py` writes them as TypeScript into
`labextension/src/wire.gen.ts`, and a test compares the two. A request carries its `kind` and is answered with the reply
it is paired with in `REQUESTS`; an event is answered by nobody. Big data travels as named arrays beside the message
(see `trt_lab.widgets.transfer`); the docstring of a message names its arrays.

Events carry no data: they say what is to be asked for anew. So a view that opens late, or twice, asks and is right.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Cell = str | float | int | bool | None


class Message(BaseModel):
    """Base of all that is sent. A key that is not known is an error, so that a typing mistake is found at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Done(Message):
    """The request was carried out; there is nothing to tell."""


class PingRequest(Message):
    """Is the kernel there? Every channel answers it."""

    kind: Literal["ping"] = "ping"


# --- graph -------------------------------------------------------------------------------------

ItemKind = Literal["frame", "scope", "node", "input", "output", "outer", "portal"]
"""What a box is, as in `graph.layout`: a `scope` is closed, a `frame` is an open one and stands behind what it holds, an
`outer` is a tensor of an outer graph, a `portal` the end of an edge that is not drawn through."""

ColourBy = Literal["type", "error", "local", "accumulated", "time", "precision"]
"""`error` is that of the newest diff; `local` and `accumulated` are those that a search for the cause measured."""

Mark = Literal["none", "same", "differs", "not_comparable"]

MARKS: tuple[Mark, ...] = ("none", "same", "differs", "not_comparable")


class SceneRequest(Message):
    """The drawing of one graph.

    Attributes:
        expanded: Scopes to draw open; None leaves the choice to Python.
        open: Scopes to draw open besides.
    """

    kind: Literal["graph.scene"] = "graph.scene"
    graph: str = ""
    expanded: list[str] | None = None
    open: list[str] = []


class Crumb(Message):
    """One step of the way to the graph shown: a graph path and what to call it."""

    graph: str
    label: str


class Scene(Message):
    """Boxes and edges of one graph.

    Arrays: `x y w h` (float32, an item each; x, y is the upper left corner), `kind` (uint8, index into
    `kinds`), `count` (int32, nodes in a scope, else 1), `parent` (int32, the frame an item stands in, -1 at the
    top), `peer` (int32, for portals the item at the other end, else -1), `op_class` (uint8, index into `op_classes`);
    `edge_from edge_to` (int32, items), `edge_tensor` (int32, index into `tensors`), `edge_start` (int32, an edge each
    and one more: where its points start), `point_x point_y` (float32, the points of all edges, ends included).

    Attributes:
        ids: An id for each item: node, scope path, tensor (inputs, outputs, portals).
        labels, details: First and second line in each box.
        tensor_labels: Type and shape of each tensor, for its edges.
        nested: Paths of the graphs inside a node, by node id.
        notes: What the reader of the model has to say, a line each.
    """

    graph: str
    title: str
    expanded: list[str]
    crumbs: list[Crumb]
    kinds: list[ItemKind]
    op_classes: list[str]
    ids: list[str]
    labels: list[str]
    details: list[str]
    tensors: list[str]
    tensor_labels: list[str]
    nested: dict[str, list[str]]
    notes: list[str] = []
    nodes: int


class PlaceRequest(Message):
    """Where a node, scope or tensor is: which graph to show, which scopes to open."""

    kind: Literal["graph.place"] = "graph.place"
    item: str


class Place(Message):
    """`item` is the id of the box that stands for what was asked for."""

    graph: str
    open: list[str]
    item: str


class CardRequest(Message):
    """What the node card shows of a node, tensor or scope."""

    kind: Literal["graph.card"] = "graph.card"
    item: str


class CardTensor(Message):
    """One input or output on the card.

    Attributes:
        declared: The shape stored in the file, where it contradicts `shape`.
        verdict, figure: What the newest diff says about it.
        refusal: Why it cannot be probed, "" if it can.
        can_probe: Whether this graph is one to probe at all; nothing is said of it where it is not.
        safe, sight: Whether a probe leaves the engine as it is, and in words; None and "" while that is not known.
    """

    id: str
    name: str
    type: str
    declared: str | None = None
    role: Literal["input", "output", "initializer", "intermediate"]
    other_ends: list[str] = []
    probed: bool = False
    refusal: str = ""
    can_probe: bool = True
    safe: bool | None = None
    sight: str = ""
    verdict: Mark = "none"
    figure: str = ""


class CardFact(Message):
    """A line of the card: attribute, time, number of nodes."""

    name: str
    value: str


class Card(Message):
    """The node card.

    Attributes:
        made_up: The node is nameless in the file, so its id was made up.
        layers: Engine layers that the node went into, as lines of text.
        can_keep: Whether "keep FP32" makes sense here.
    """

    id: str
    what: Literal["node", "scope", "tensor"]
    title: str
    subtitle: str
    made_up: bool = False
    facts: list[CardFact] = []
    inputs: list[CardTensor] = []
    outputs: list[CardTensor] = []
    layers: list[str] = []
    nested: list[Crumb] = []
    can_keep: bool = False
    kept: bool = False


class SearchRequest(Message):
    """Nodes, tensors and scopes that match."""

    kind: Literal["graph.search"] = "graph.search"
    query: str
    limit: int = 50


class Hit(Message):
    """One line of the search results."""

    what: Literal["node", "tensor", "scope"]
    id: str
    label: str
    detail: str


class Hits(Message):
    """Search results, best first."""

    hits: list[Hit]


class ColoursRequest(Message):
    """Colours and marks of a scene that was received before."""

    kind: Literal["graph.colours"] = "graph.colours"
    graph: str
    expanded: list[str]
    by: ColourBy


class LegendEntry(Message):
    """One colour of the legend."""

    label: str
    slot: int


class Colours(Message):
    """How the items of a scene are coloured.

    Arrays, a value an item: `slot` (int16, -1 none; index into a palette of the front end for categories), `level`
    (float32 from 0 to 1, NaN none; for scales), `mark` (uint8, index into `marks`), `probed`, `kept`, `safe` (uint8;
    `safe`: a node one of whose outputs can be probed without changing the engine).
    Under a collapsed scope the worst of what it holds counts.

    Attributes:
        figures: What to write in the second line of an item instead of its detail, "" for none.
        scale: Set for errors and `time`: labels of its low and high end.
        safe, hidden: Numbers of tensors that are safe to probe, and of those that are not; None while not known.
        missing: Why there is nothing to show yet, "" if there is.
    """

    by: ColourBy
    legend: list[LegendEntry] = []
    scale: tuple[str, str] | None = None
    marks: list[Mark] = list(MARKS)
    figures: list[str] = []
    missing: str = ""
    safe: int | None = None
    hidden: int | None = None


class ProbeRequest(Message):
    """Puts a probe on a tensor, or takes it off."""

    kind: Literal["graph.probe"] = "graph.probe"
    tensor: str
    on: bool


class KeepRequest(Message):
    """Keeps a node (or the nodes of a scope) in FP32, or gives it back."""

    kind: Literal["graph.keep"] = "graph.keep"
    node: str
    on: bool


class UndoRequest(Message):
    """Takes back the newest probe or kept node."""

    kind: Literal["graph.undo"] = "graph.undo"


class GraphChanged(Message):
    """Another model is open: ask for the scene."""

    kind: Literal["graph.changed"] = "graph.changed"


class ColoursChanged(Message):
    """Colours, marks or what cards say changed."""

    kind: Literal["graph.colours_changed"] = "graph.colours_changed"


# --- table -------------------------------------------------------------------------------------


class Column(Message):
    """One column of a table.

    Attributes:
        format: How cells are written: `name` is elided in the middle, `figure` takes 4 significant digits,
            `share` a number from 0 to 1 as a percentage with a bar, `verdict` a mark with its word.
        unit: Written small in the header.
        help: What the column means, one line.
    """

    name: str
    label: str
    format: Literal["text", "name", "integer", "figure", "share", "verdict", "yes"] = "text"
    unit: str = ""
    help: str = ""
    width: int = 0


class TableQuery(Message):
    """Order and filter of the rows."""

    sort: str = ""
    descending: bool = False
    filter: str = ""


class RowsRequest(Message):
    """Rows `start` to `start + count` under a query."""

    kind: Literal["table.rows"] = "table.rows"
    query: TableQuery = TableQuery()
    start: int
    count: int


class Rows(Message):
    """Cells by row, in the order of the columns; `keys` identify the rows."""

    version: int
    total: int
    unfiltered: int
    start: int
    keys: list[str]
    cells: list[list[Cell]]


class RowPlaceRequest(Message):
    """Where a row stands under a query."""

    kind: Literal["table.place"] = "table.place"
    query: TableQuery = TableQuery()
    key: str


class RowPlace(Message):
    """`index` is None where the filter hides the row."""

    index: int | None


class TableChanged(Message):
    """Rows or columns are new: ask for them."""

    kind: Literal["table.changed"] = "table.changed"


# --- figure ------------------------------------------------------------------------------------


class BokehRequest(Message):
    """BokehJS itself. Answered with the array `gzip` (uint8)."""

    kind: Literal["figure.bokeh"] = "figure.bokeh"
    version: str


class FigureRequest(Message):
    """The figure as Bokeh's `json_item`."""

    kind: Literal["figure.item"] = "figure.item"


class FigureItem(Message):
    """Arrays: the binary columns, by the ids that `item` refers to them by."""

    item: Any


class FigurePatchRequest(Message):
    """A change made in the browser."""

    kind: Literal["figure.patch"] = "figure.patch"
    patch: Any


class FigurePatched(Message):
    """A change made in Python. Arrays as in `FigureItem`."""

    kind: Literal["figure.patched"] = "figure.patched"
    patch: Any


class FigureChanged(Message):
    """Another figure is shown: ask for it."""

    kind: Literal["figure.changed"] = "figure.changed"


# --- snippets ----------------------------------------------------------------------------------


class Snippet(Message):
    """A text to copy."""

    label: str
    text: str


REQUESTS: tuple[tuple[type[Message], type[Message]], ...] = (
    (PingRequest, Done),
    (SceneRequest, Scene),
    (PlaceRequest, Place),
    (CardRequest, Card),
    (SearchRequest, Hits),
    (ColoursRequest, Colours),
    (ProbeRequest, Done),
    (KeepRequest, Done),
    (UndoRequest, Done),
    (RowsRequest, Rows),
    (RowPlaceRequest, RowPlace),
    (BokehRequest, Done),
    (FigureRequest, FigureItem),
    (FigurePatchRequest, Done),
)
"""Each request and its reply."""

EVENTS: tuple[type[Message], ...] = (GraphChanged, ColoursChanged, TableChanged, FigurePatched, FigureChanged)
"""What Python says unasked."""

TRAITS: tuple[type[Message], ...] = (Column, Snippet)
"""What travels as the value of a trait."""


def kind_of(message: type[Message]) -> str:
    """The `kind` that a request or event is sent under."""
    return message.model_fields["kind"].default
