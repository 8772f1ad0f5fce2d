"""Engines, a file each: native ones (pictures, rows in memory, batches of our datasets, streams), and those
that
run the user's Python: in worker processes, in threads, or inside next().
"""
