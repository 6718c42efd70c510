"""What is noticed of an unmodified script: steps, phases, collectives and written files.

Each hook waits for torch to be imported (`on_import.py`) and never imports it.
"""
