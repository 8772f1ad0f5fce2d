"""Files of lines: JSONL and Lines, any line of which is one read away; JSONLStream, which reads them from
first to last.

- fields.py: what is wanted of a line; fields that nobody named
- reading.py: lines by Python's json, which has the last word, and what is wrong with them
- files.py: opened files: indexes, plain copies of packed ones
- dataset.py: JSONL, Lines, and their batches
- stream.py: JSONLStream
"""

from .dataset import JSONL, Lines
from .fields import JSONField
from .stream import JSONLStream

__all__ = ["JSONField", "JSONL", "JSONLStream", "Lines"]
