"""What several tests share: a small trace, real traces where there are any, the command line."""

import os
import shutil
from pathlib import Path

import destage
import numpy as np
import pytest

TOP = Path(__file__).resolve().parents[2]


def small_trace(requests: int = 5000, seed: int = 7, name: str = "small") -> destage.Trace:
    """Random and sequential writes and reads over 64 MiB."""
    draw = np.random.default_rng(seed)
    times = np.cumsum(draw.exponential(2e6, requests)).astype(np.uint64)
    pages = draw.integers(0, 16_384, requests)
    pages[requests // 2 :] = np.arange(requests - requests // 2) % 16_384
    return destage.Trace.from_arrays(
        times, pages * 4096, np.full(requests, 4096), draw.random(requests) < 0.6, name=name
    )


@pytest.fixture
def trace() -> destage.Trace:
    return small_trace()


@pytest.fixture
def command_line() -> str:
    """The command destage, where DESTAGE names it or it was built."""
    for found in (os.environ.get("DESTAGE"), TOP / "target/release/destage"):
        if found and shutil.which(found):
            return str(found)
    pytest.skip("SKIPPED: no command destage: set DESTAGE or run `make build`")


@pytest.fixture
def real_traces() -> Path:
    """The folder of real traces."""
    for folder in (os.environ.get("DESTAGE_TRACES"), TOP.parent / "shared/traces"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip("SKIPPED: no real traces: set DESTAGE_TRACES")
