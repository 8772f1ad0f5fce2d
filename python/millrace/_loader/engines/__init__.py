"""Engines: they make batches of index lists, with the protocol of _loader/engine.py.

Native engines: native.py, of pictures, or over rows.py or batches.py; stream_engine.py, with its spec in
stream.py. Engines that run the user's Python: inline.py; threads.py and processes.py, both over workers.py.
The other files are parts of these.
"""
