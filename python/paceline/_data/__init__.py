"""Which samples a rank reads, without a framework; `paceline.data` is the public module.

`loader.py` cuts steps among ranks, `order.py` computes the order, `leases.py` serves asynchronous
work, and `likeness.py` refuses a position in other data.
"""
