"""Data sets over formats in files: one file a format, each with `__len__` and `__getitem__`."""
