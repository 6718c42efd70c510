"""The peer of data_shuffle.py: an order of MosaicML's streaming, for an interpreter that has it.

    python -m bench.data.shuffle_peer OUT.npy SAMPLES SHARD SEED EPOCH BLOCK

Only the order code is loaded, which needs NumPy alone; the package's own import wants clouds' SDKs.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
import time
import types
from typing import Any


def shuffles() -> Any:
    found = importlib.util.find_spec("streaming")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("mosaicml-streaming is not installed here")
    root = found.submodule_search_locations[0]
    for name, path in (("streaming", root), ("streaming.base", f"{root}/base")):
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    return importlib.import_module("streaming.base.shuffle")


def main() -> None:
    import numpy as np

    out, *numbers = sys.argv[1:]
    samples, shard, seed, epoch, block = map(int, numbers)
    sizes = np.full(samples // shard, shard, np.int64)
    get = shuffles().get_shuffle
    begin = time.perf_counter()
    order = get("py1e", sizes, 1, seed, epoch, block)
    took = time.perf_counter() - begin
    np.save(out, order)
    print(f"{took} {importlib.metadata.version('mosaicml-streaming')}")


if __name__ == "__main__":
    main()
