"""The records of batches: their samples (recorder.py), a hash that tells batches apart (hashes.py), the
states of random generators (draws.py); and stacks of workers, also of stuck ones (stacks.py).
"""
