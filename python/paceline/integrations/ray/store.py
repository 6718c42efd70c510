"""What outlives the adapter: a few values in the key-value store of Ray's head (the GCS)."""

from __future__ import annotations

import json
from typing import Any

from ray.experimental import internal_kv

_SPACE = b"paceline"


class Store:
    """The values of one job: `Store("train")`. The calling process must be connected to Ray."""

    def __init__(self, job: str) -> None:
        self._job = job

    def _key(self, field: str) -> bytes:
        return f"jobs/{self._job}/{field}".encode()

    def read(self, field: str) -> bytes | None:
        return internal_kv._internal_kv_get(self._key(field), namespace=_SPACE)

    def write(self, field: str, value: bytes) -> None:
        internal_kv._internal_kv_put(self._key(field), value, overwrite=True, namespace=_SPACE)

    def write_new(self, field: str, value: bytes) -> bool:
        """False: there is a value already, which stays."""
        return not internal_kv._internal_kv_put(self._key(field), value, overwrite=False,
                                                namespace=_SPACE)

    def read_json(self, field: str, missing: Any = None) -> Any:
        value = self.read(field)
        return missing if value is None else json.loads(value)

    def write_json(self, field: str, value: Any) -> None:
        self.write(field, json.dumps(value).encode())

    def forget(self, prefix: str = "") -> None:
        """Remove the values of the job whose fields begin so."""
        for key in internal_kv._internal_kv_list(self._key(prefix), namespace=_SPACE):
            internal_kv._internal_kv_del(key, namespace=_SPACE)
