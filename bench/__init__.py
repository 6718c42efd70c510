"""The benchmarks, a folder for each topic: `python -m bench.runtime.recovery` from the repository's
root. README.md says what was measured, and method.md how to run each.
"""
