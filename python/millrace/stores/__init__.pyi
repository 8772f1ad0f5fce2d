# The public names of millrace.stores, and where each comes from when it is asked for.

from .disk_cache import DiskCache as DiskCache
from .settings import Settings as Settings
from .sources import ShardStream as ShardStream
from .sources import open_shards as open_shards
from .sources import open_source as open_source
