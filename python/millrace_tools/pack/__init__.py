"""Data sets as shards: pack() writes them, transcode_jpeg() makes pictures with parts that can be decoded
alone.
"""

from .journal import verify
from .packer import pack
from .pictures import transcode_jpeg
from .shard_writer import index_path
from .sources import Source

__all__ = ["Source", "index_path", "pack", "transcode_jpeg", "verify"]
