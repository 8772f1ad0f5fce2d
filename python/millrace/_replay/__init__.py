"""Batches of the past made again, out of what `_history` holds, and what all workers are doing now.

replaying.py makes a batch again, by way of a loader's copy and of the index lists drawn again (shadow.py);
dump.py asks all workers, signals.py has it done on a signal; methods.py is what DataLoader has of it.
"""
