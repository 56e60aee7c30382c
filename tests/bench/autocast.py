"""Our precision pass against AutoCast of NVIDIA ModelOpt: casts, nodes lowered, numbers, refusals, time.

    python -m tests.bench.autocast --autocast-python VENV/bin/python [--models DIR] [--json]

AutoCast pins other versions of onnx and onnxruntime, and needs torch, so it runs in an environment of its own:
`python -m venv VENV && VENV/bin/pip install "nvidia-modelopt[onnx]"`. Both convert the same files with the same nodes
kept in FP32; AutoCast's own rules (data_max, init_max) are switched off for that, and once more left on, to count what
they keep. DIR holds `l2norm_overflow.onnx` and `encoder4.onnx` (and `magika.onnx`, `silero_16k.onnx`, `silero.onnx`);
those that are not there are left out. The zoo's models are always there.

Numbers are those of onnx's reference evaluator, which computes float16 in float16: ONNX Runtime on the CPU does not.
`max abs` is against ONNX Runtime in FP32. A checker or an evaluator that refuses a converted model is told.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from trt_lab import zoo
from trt_lab.edit.precision import typed
from trt_lab.errors import TrtLabError
from trt_lab.model import Model
from trt_lab.types import NodeId, PrecisionPlan

NORM = tuple(NodeId(n) for n in ("/Mul", "/Mul_1", "/ReduceSum", "/Add", "/Sqrt", "/Div"))
"""The region of the recorded l2norm_overflow that brings the value back into range."""

RUNNER = """
import json, math, re, sys, time, traceback
started = time.perf_counter()
import onnx
from modelopt.onnx.autocast import convert_to_mixed_precision
found = {"import_s": time.perf_counter() - started, "modules": len(sys.modules), "results": []}
for job in json.load(open(sys.argv[1])):
    limits = {} if job["rules"] else {"data_max": math.inf, "init_max": math.inf}
    started = time.perf_counter()
    error = ""
    try:
        made = convert_to_mixed_precision(job["path"], low_precision_type=job["low"], keep_io_types=True,
            nodes_to_exclude=["^" + re.escape(name) + "$" for name in job["keep"]] or None, **limits)
        onnx.save(made, job["out"])
    except Exception as failure:
        lines = traceback.format_exception_only(type(failure), failure)
        error = " ".join("".join(lines).split())[:200]
    found["results"].append({"seconds": time.perf_counter() - started, "error": error})
json.dump(found, open(sys.argv[2], "w"))
"""


@dataclass(frozen=True)
class Case:
    """One conversion. `feeds` None: the numbers are not looked at."""

    name: str
    model: Model
    low: str
    keep: tuple[NodeId, ...]
    feeds: Mapping[str, np.ndarray] | None


@dataclass
class Row:
    """What one tool made of one case; figures are None where there are none."""

    case: str
    tool: str
    seconds: float
    error: str = ""
    casts: int | None = None
    low_nodes: int | None = None
    nodes: int | None = None
    max_abs: float | None = None


def branches(loop: bool) -> Model:
    """An If (or a Loop of three rounds) between two products, with a product inside."""
    f32 = TensorProto.FLOAT
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32) * 0.5, "w")
    inside = helper.make_node("MatMul", ["h" if not loop else "state", "w"], ["inner"], name="inside")
    if loop:
        keep_on = helper.make_node("Identity", ["go"], ["go_on"], name="again")
        state = [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("state", f32, [1, 4])]
        outputs = [value("go_on", TensorProto.BOOL, []), value("inner", f32, [1, 4])]
        body = helper.make_graph([keep_on, inside], "body", state, outputs)
        middle = helper.make_node("Loop", ["rounds", "on", "h"], ["z"], name="loop", body=body)
    else:
        other = helper.make_node("Identity", ["h"], ["same"], name="same")
        then = helper.make_graph([inside], "then", [], [value("inner", f32, [1, 4])])
        otherwise = helper.make_graph([other], "else", [], [value("same", f32, [1, 4])])
        middle = helper.make_node("If", ["on"], ["z"], name="if", then_branch=then, else_branch=otherwise)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="before"),
        middle,
        helper.make_node("Mul", ["z", "z"], ["y"], name="after"),
    ]
    constants = [
        weight,
        numpy_helper.from_array(np.array(True), "on"),
        numpy_helper.from_array(np.array(3, np.int64), "rounds"),
    ]
    graph = helper.make_graph(nodes, "branches", [value("x", f32, [1, 4])], [value("y", f32, [1, 4])], constants)
    return Model.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10))


def cases(folder: Path | None) -> Iterable[Case]:
    """All that is there."""
    row = {"x": np.linspace(-1, 1, 4, dtype=np.float32)[None]}
    random = np.random.default_rng(0)
    yield Case("If", branches(False), "fp16", (), row)
    yield Case("Loop", branches(True), "fp16", (), row)
    for name in (
        "l2norm_overflow",
        "layernorm_overflow",
        "two_norms",
        "offset",
        "mask_where",
        "positions",
        "clean_cnn",
    ):
        subject = zoo.get(name)
        yield Case(f"zoo {name}", subject.model, "fp16", subject.keep, subject.feeds[0])
    yield Case("zoo clean_cnn BF16", zoo.get("clean_cnn").model, "bf16", (), zoo.get("clean_cnn").feeds[0])
    shapes: dict[str, dict[str, np.ndarray] | None] = {
        "l2norm_overflow": {"x": random.standard_normal((1, 3, 64, 64)).astype(np.float32)},
        "encoder4": {"x": random.standard_normal((1, 128, 64)).astype(np.float32)},
        "magika": {"bytes": random.integers(0, 256, (1, 2048), dtype=np.int32)},
        "silero_16k": None,
        "silero": None,
    }
    for name, feeds in shapes.items():
        path = None if folder is None else folder / f"{name}.onnx"
        if path is None or not path.is_file():
            continue
        model = Model.load(path)
        yield Case(name, model, "fp16", (), feeds)
        if name == "l2norm_overflow":
            yield Case(f"{name}, region kept", model, "fp16", NORM, feeds)
        if name == "encoder4":
            yield Case(f"{name} BF16", model, "bf16", (), feeds)


def ours(case: Case, out: Path) -> Row:
    """Our pass."""
    started = time.perf_counter()
    try:
        typed(case.model, PrecisionPlan(case.low, case.keep)).model.save(out)  # type: ignore[arg-type]  # fp16 or bf16
    except TrtLabError as error:
        return Row(case.name, "trt-lab", time.perf_counter() - started, str(error)[:200])
    return Row(case.name, "trt-lab", time.perf_counter() - started)


def measure(row: Row, case: Case, path: Path, reference: Sequence[np.ndarray] | None) -> None:
    """Fills in the figures of a converted model."""
    if row.error:
        return
    model = onnx.load(path)
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # noqa: BLE001 (the checker's errors have no common base)
        row.error = f"checker: {' '.join(str(error).split())[:160]}"
    low = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[case.low]
    nodes = list(_nodes(model.graph))
    row.nodes = len(nodes)
    row.casts = sum(node.op_type == "Cast" for node in nodes) - sum(
        node.op_type == "Cast" for node in _nodes(case.model.proto().graph)
    )
    row.low_nodes = _low_nodes(model, low)
    if reference is None or case.feeds is None:
        return
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(case.feeds))
        differences = [
            np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in zip(found, reference, strict=True)
        ]
        row.max_abs = max(float(d.max(initial=0.0)) if np.isfinite(d).all() else float("inf") for d in differences)
    except Exception as error:  # noqa: BLE001 (whatever the evaluator raises, the model did not run)
        row.error = row.error or f"does not run: {' '.join(str(error).split())[:160]}"


def autocast(python: Path, chosen: Sequence[Case], folder: Path, *, rules: bool) -> tuple[list[Row], dict[str, Any]]:
    """AutoCast over all cases, in one process."""
    label = "AutoCast" + (", own rules on" if rules else "")
    jobs = [
        {"path": str(folder / f"{i}.onnx"), "out": _out(folder, i, label), "low": case.low, "keep": case.keep}
        for i, case in enumerate(chosen)
    ]
    (folder / "jobs.json").write_text(json.dumps([{**job, "rules": rules} for job in jobs]))
    command = [str(python), "-c", RUNNER, str(folder / "jobs.json"), str(folder / "found.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"AutoCast does not start: {done.stderr[-500:]}")
    found = json.loads((folder / "found.json").read_text())
    rows = [Row(c.name, label, r["seconds"], r["error"]) for c, r in zip(chosen, found["results"], strict=True)]
    return rows, {"import_s": found["import_s"], "modules": found["modules"]}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autocast-python", type=Path, required=True)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    chosen = list(cases(asked.models))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, case in enumerate(chosen):
            case.model.save(folder / f"{i}.onnx")
        plain, about = autocast(asked.autocast_python, chosen, folder, rules=False)
        ruled, _ = autocast(asked.autocast_python, chosen, folder, rules=True)
        for i, case in enumerate(chosen):
            reference = None
            if case.feeds is not None:
                session = ort.InferenceSession(str(folder / f"{i}.onnx"), providers=["CPUExecutionProvider"])
                reference = [np.asarray(found) for found in session.run(None, dict(case.feeds))]
            mine = ours(case, Path(_out(folder, i, "trt-lab")))
            for row in (mine, plain[i], ruled[i]):
                measure(row, case, Path(_out(folder, i, row.tool)), reference)
                rows.append(row)
    if asked.json:
        print(json.dumps({"autocast": about, "rows": [asdict(row) for row in rows]}))
        return
    print(f"importing AutoCast: {about['import_s']:.1f} s, {about['modules']} modules")
    print(f"{'case':32} {'tool':24} {'nodes':>6} {'low':>5} {'casts':>6} {'max abs':>10} {'s':>7}  refused")
    for row in rows:
        figures = f"{_text(row.nodes):>6} {_text(row.low_nodes):>5} {_text(row.casts):>6} {_text(row.max_abs):>10}"
        print(f"{row.case:32} {row.tool:24} {figures} {row.seconds:>7.2f}  {row.error}")


def _out(folder: Path, index: int, tool: str) -> str:
    return str(folder / f"{index}.{''.join(c for c in tool if c.isalnum())}.onnx")


def _nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _low_nodes(model: onnx.ModelProto, low: int) -> int | None:
    """Nodes of the main graph that are no Cast and give the low type; None where types cannot be inferred."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=False).graph
    except Exception:  # noqa: BLE001 (a model that is not valid)
        return None
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output)}
    return sum(n.op_type not in ("Cast", "Constant") and any(types.get(o) == low for o in n.output) for n in graph.node)


def _text(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.3g}" if isinstance(figure, float) else str(figure)


if __name__ == "__main__":
    main()
