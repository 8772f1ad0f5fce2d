"""Reports on what a loader did: charts, pages, traces and metrics, made of `loader.stats()`."""
