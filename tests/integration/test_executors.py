"""Searches spread over any executor: threads, processes, a Dask cluster."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from trt_lab import Session
from trt_lab.backends.worker import USUAL_WIDTH, Worker
from trt_lab.results import Finding

REGION = ("/norm/Pow", "/norm/ReduceMean_1", "/norm/Add", "/norm/Sqrt")


def locate(executor: Executor, folder: Path) -> Finding:
    lab = Session("zoo:layernorm_overflow", records=folder / "records", executor=executor)
    lab.use(precision="fp16")
    return lab.locate(artifacts=folder / "steps")


def same_errors(a: Finding, b: Finding) -> bool:
    return [(e.tensor, e.stats, e.local) for e in a.errors] == [(e.tensor, e.stats, e.local) for e in b.errors]


def test_threads_measure_the_samples_side_by_side(tmp_path: Path) -> None:
    alone = locate(ThreadPoolExecutor(1), tmp_path / "1")
    together = locate(ThreadPoolExecutor(3), tmp_path / "3")
    assert alone.keep_fp32 == together.keep_fp32 == REGION
    assert same_errors(alone, together)
    steps = (tmp_path / "3" / "steps" / "steps.jsonl").read_text()
    assert steps.count('"errors of sample') == 2 * 4, "each of the four samples is a step, begun and ended"
    assert '"errors of sample' not in (tmp_path / "1" / "steps" / "steps.jsonl").read_text()


def test_a_search_goes_on_in_another_kind_of_executor(tmp_path: Path) -> None:
    first = locate(ThreadPoolExecutor(3), tmp_path)
    lab = Session("zoo:layernorm_overflow", records=tmp_path / "records", executor=ThreadPoolExecutor(1))
    lab.use(precision="fp16")
    again = lab.locate(artifacts=tmp_path / "steps", resume=True)
    assert again.keep_fp32 == first.keep_fp32 and same_errors(first, again)


def test_builds_side_by_side_leave_records_of_their_own(tmp_path: Path) -> None:
    lab = Session("zoo:clean_layers", records=tmp_path, executor=ThreadPoolExecutor(3))
    found = lab.flaky(5)
    assert found.kind == "identical"
    assert len({build.record.path for build in found.builds}) == 5


def test_how_many_jobs_run_side_by_side() -> None:
    class Other(Executor):
        """An executor that does not tell."""

    assert Worker().width == 1
    assert Worker(ThreadPoolExecutor(7)).width == 7
    assert Worker(Other()).width == USUAL_WIDTH


@pytest.mark.slow
def test_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = locate(pool, tmp_path)
    assert found.keep_fp32 == REGION


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs trt-lab[dask]")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = locate(client.get_executor(), tmp_path)
    assert found.keep_fp32 == REGION and found.proved is False
