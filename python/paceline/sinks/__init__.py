"""How other programs write into a training job: `writer` and its adapters for Spark and Ray."""
