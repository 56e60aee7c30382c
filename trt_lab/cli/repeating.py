"""`trt-lab build --repeat`: several builds of one engine, and whether they agree."""

from __future__ import annotations

import shutil
from pathlib import Path

from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_table, show_progress
from trt_lab.diagnose.flaky import Flaky, best_build
from trt_lab.session import Session


def build_repeatedly(session: Session, count: int, out: Path, lock: Path | None, *, json: bool) -> int:
    """Builds `count` times, keeps the best record and, where there is one, its timing cache. Exit 1 when one is wrong."""
    with show_progress(quiet=json) as tell:
        found = session.flaky(count, tell)
    kept = best_build(found) or found.builds[0]
    record = kept.record.copy_to(out)
    saved = Path(shutil.copyfile(found.lock, lock)) if found.lock is not None and lock is not None else None
    if json:
        print_json(
            found.as_json() | {"record": str(record.path), "saved_lock": str(saved) if saved is not None else None}
        )
    else:
        _print(found)
        print_line(f"wrote {record.path}" + ("" if kept.right else ", which is wrong: no build is right"))
        if saved is not None:
            print_line(f"wrote {saved}: build with --timing-cache {saved} to have these kernels again")
        elif lock is not None:
            print_line(f"no timing cache was saved: {_why_not(found)}")
    return FINE if all(build.right for build in found.builds) else FINDING


def _print(found: Flaky) -> None:
    print_line(f"{found.kind}: {found.headline}")
    rows = [
        (number, "right" if build.right else "wrong", build.error, "yes" if build.same_bits else "no",
         {True: "yes", False: "no", None: None}[build.repeats], len(build.record.layers))
        for number, build in enumerate(found.builds, 1)
    ]  # fmt: skip
    print_table(
        ("build", "result", "max abs", "bits of build 1", "repeats itself", "layers"),
        rows,
        numbers=("build", "max abs", "layers"),
    )
    for choice in found.tactics:
        print_line(
            f"  other kernels in {choice.layer}: {', '.join(kernel or 'no such layer' for kernel in choice.by_build)}"
        )
        if choice.suspect:
            print_line(f"    only in wrong builds: {', '.join(choice.suspect)}")
    for change in found.fusions:
        print_line(f"  fused otherwise: {change.layer} {change.kind}")
    if found.locked is not None:
        print_line("the saved timing cache gives the same kernels and bits again" if found.locked
                   else "a build from the saved timing cache still differs: the cache does not hold all choices")  # fmt: skip


def _why_not(found: Flaky) -> str:
    if found.kind == "identical":
        return "the builds agree, so there is nothing to lock"
    if found.kind == "all wrong":
        return "no build is right"
    return "this backend has no timing cache"
