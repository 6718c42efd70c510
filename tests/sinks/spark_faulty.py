"""The Spark sink with faults, as a module that Spark's workers can import."""

from __future__ import annotations

import faulty
from paceline.sinks.spark import PacelineSource


class FaultySource(PacelineSource):
    def _sink(self) -> faulty.FaultySink:
        return faulty.FaultySink(
            self.options["url"], app=self.options["app"], secrets=self.options["secrets"])
