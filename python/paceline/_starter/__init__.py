"""The fork server of a node: `python -m paceline._starter` keeps an interpreter warm.

It forks ranks on its agent's orders and reports their exits (`server.py`); start at `__main__.py`.
"""
