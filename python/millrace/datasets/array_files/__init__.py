"""Arrays that lie in files and stores, as rows of samples: the common base of HDF5 and Zarr.

An `ArraySource` (sources.py) is one array that can be read in boxes, by any reader. A `Cut` (there, too)
is the part of it that a dataset wants. `ArrayRows` (rows.py) puts the cuts of all fields and files together
as a ChunkedDataset.
"""
