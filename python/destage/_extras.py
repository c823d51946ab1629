"""Optional packages, imported when they are first needed."""

from importlib import import_module
from typing import Any

from destage.errors import MissingExtraError

_EXTRAS = {
    "pandas": "frames",
    "polars": "frames",
    "pyarrow": "frames",
    "pyarrow.parquet": "frames",
    "matplotlib.pyplot": "plot",
    "tqdm.auto": "progress",
    "distributed": "sweep",
}


def need(module: str) -> Any:
    """The module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        extra = _EXTRAS[module]
        package = module.partition(".")[0]
        message = f"{package} is needed for this: pip install 'destage[{extra}]'"
        raise MissingExtraError(message) from error
