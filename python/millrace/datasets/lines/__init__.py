"""Files of lines: JSONL and Lines, any line of which is one read away; JSONLStream, which reads them from
first to last.

- fields.py: the fields wanted of a line; fields that are not named
- reading.py: lines by Python's json, which decides about refused lines and describes their errors
- files.py: opened files: indexes, plain copies of packed ones
- dataset.py: JSONL, Lines, and their batches
- stream.py: JSONLStream
"""

from .dataset import JSONL, Lines
from .fields import JSONField
from .stream import JSONLStream

__all__ = ["JSONField", "JSONL", "JSONLStream", "Lines"]
