"""The history recorder: batches of the past made again, and what every worker is doing at this moment.

recorder.py remembers, hashes.py tells batches apart, draws.py follows random generators of Python datasets,
replaying.py makes a batch again, by way of a loader's copy and of the index lists drawn again (shadow.py);
dump.py asks all workers, signals.py has it done on a signal.
"""
