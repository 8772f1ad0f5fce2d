"""What the native engine takes of Python objects, for datasets and for the loader's planner alike.

recognising.py  how a recogniser says no; callables that only hold others
chain.py  the chain that transforms become, and their arguments
rows.py, memory_rows.py  rows that lie in memory, as columns
transforms.py, tensor_resize.py  torchvision's transforms and ours, as a chain of steps
policies.py, branches.py  augmentation policies; what happens by chance, as their branches
timm_policies.py, timm_transforms.py  timm's, of what create_transform() makes
function_source.py, read_source.py, read_values.py, picture_calls.py  what a callable does, by its source
read_batches.py, read_collates.py  the same, of functions of a batch of Arrow's, and of a collate_fn
"""
