"""Arrays that lie in files and stores, as rows of samples: what HDF5 and Zarr have in common.

An `ArraySource` (sources.py) is one array that can be read in boxes, whoever reads it. A `Cut` (there, too)
says which part of it a dataset wants. `ArrayRows` (rows.py) puts the cuts of all fields and files together as
a ChunkedDataset.
"""
