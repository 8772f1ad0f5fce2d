"""What is remembered of batches: which samples they had (recorder.py), a hash that tells them apart
(hashes.py), where random generators stood (draws.py); and stacks of workers, also of stuck ones (stacks.py).
"""
