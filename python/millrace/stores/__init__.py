"""Remote shards: local files, http(s), s3, gs and az objects, and whatever fsspec reads, as `ByteSource`s.

>>> with stores.open_shards(urls, cache=stores.DiskCache("/nvme/cache", max_bytes=10**12)) as shards:
...     for url, source in shards: ...

`open_source(url)` is for reads at any offset, `open_shards(urls)` for streams. Credentials are the
ecosystem's: environment variables, AWS profile files, the cloud's metadata service; `store_options` passes
through to obstore's or fsspec's constructor.
"""

from .._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .disk_cache: DiskCache
    .settings: Settings
    .sources: ShardStream open_shards open_source
    """,
)
