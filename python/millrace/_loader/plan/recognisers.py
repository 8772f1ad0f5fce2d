"""Finds the recogniser of a dataset: the first line with a class that is a base of the dataset's class, and
with a recogniser that claims the dataset. No module of a line is imported before its class is met. Subset is
looked through.
"""

from __future__ import annotations

# (a class, the module and name of the recogniser)
RECOGNISERS: list[tuple[str, str]] = [
    ("millrace.datasets.image_folder.ImageFolder", ".pictures:FOLDER"),
    ("millrace.datasets.webdataset.dataset.WebDataset", ".streams:STREAM"),
    ("millrace.datasets.webdataset.indexed.IndexedWebDataset", ".pictures:INDEXED"),
    ("millrace.datasets.arrays.Arrays", ".in_memory:STACKED"),
    ("millrace.datasets.tokens.dataset.Tokens", ".in_memory:TOKENS"),
    ("millrace.datasets.hdf5.HDF5", ".in_memory:MAPPED"),
    ("millrace.datasets.tables.table.Table", ".in_memory:PLAIN_TABLE"),
    ("millrace.datasets.batches.dataset.BatchDataset", ".batches:BATCHES"),
    ("torch.Tensor", ".in_memory:TABLE"),
    ("numpy.memmap", ".in_memory:TABLE"),
    ("numpy.ndarray", ".in_memory:TABLE"),
    ("torch.utils.data.dataset.TensorDataset", ".in_memory:TENSORS"),
    ("torch.utils.data.dataset.StackDataset", ".in_memory:STACKED"),
    ("torch.utils.data.dataset.ConcatDataset", ".pictures:JOINED"),
    ("torch.utils.data.dataset.ConcatDataset", ".in_memory:JOINED"),
    ("torchvision.datasets.vision.VisionDataset", ".pixel_arrays:VISION"),
    ("timm.data.dataset.ImageDataset", ".path_lists:TIMM"),
    ("datasets.arrow_dataset.Dataset", ".arrow:PICTURES"),
    ("datasets.arrow_dataset.Dataset", ".arrow:ROWS"),
]
