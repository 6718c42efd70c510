"""Spark writes the clicks of Parquet files, a file a batch.

`spark_job.py stream URL SECRETS FOLDER CHECKPOINTS`, or `… batch URL SECRETS FOLDER EPOCH`.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from spark_faulty import FaultySource


def main() -> None:
    how, url, secrets, folder, last = sys.argv[1:]
    # A task may fail 4 times, as on a cluster.
    spark = (SparkSession.builder.master("local[2,4]").appName("clicks")
             .config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
             .config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.local.dir", os.environ["SCRATCH"])
             .config("spark.sql.warehouse.dir", os.environ["SCRATCH"]).getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(FaultySource)
    options = {"url": url, "app": "spark", "secrets": secrets}
    if how == "batch":
        table = spark.read.parquet(folder).repartition(3)
        (table.write.format("paceline").mode("append")
         .options(**options, epoch=last).save())
    else:
        clicks = (spark.readStream.schema("click LONG").option("maxFilesPerTrigger", 1)
                  .parquet(folder).repartition(3))
        (clicks.writeStream.format("paceline").options(**options, checkpointLocation=last)
         .trigger(availableNow=True).start().awaitTermination())
    spark.stop()


if __name__ == "__main__":
    main()
