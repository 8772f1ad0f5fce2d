"""Arrays that a dataset reads through h5py or zarr: read by the engine while a loader asks."""
