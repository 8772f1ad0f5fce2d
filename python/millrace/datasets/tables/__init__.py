"""Tables: Parquet, Arrow and what lies in memory, as map-style datasets whose samples are dicts of columns.

- tabular.py: chunks of an Arrow schema become samples
- parquet.py, arrow_file.py, table.py: where they come from
- mapping.py: one reader for each column, by its type
- numbers.py: what it makes of Arrow's buffers
- rules.py: what the user says about columns; those of Python's values
- filtering.py, table_files.py: which rows, which files, their bytes
"""

from .arrow_file import ArrowFile
from .parquet import Parquet, RowGroup
from .table import Table

__all__ = ["ArrowFile", "Parquet", "RowGroup", "Table"]
