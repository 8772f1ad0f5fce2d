"""Tables: Parquet, Arrow and tables in memory, as map-style datasets with dicts of columns as samples.

- tabular.py: makes samples of chunks of an Arrow schema
- parquet.py, arrow_file.py, table.py: the sources of chunks
- mapping.py: one reader for each column, by its type
- numbers.py: numpy arrays of Arrow's buffers
- rules.py: the user's rules for columns; columns of Python values
- filtering.py, table_files.py: which rows, which files, their bytes
"""

from .arrow_file import ArrowFile
from .parquet import Parquet, RowGroup
from .table import Table

__all__ = ["ArrowFile", "Parquet", "RowGroup", "Table"]
