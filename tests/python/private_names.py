"""The private names of other libraries that millrace uses, by library, with their purpose: any version may
change them. python/millrace/_common/torch_private.py has the names that torch must have to be accepted at
import. test_private_names.py tests both files.

An attribute that only objects have is listed after their class. If a library has a public name for the same
thing, millrace uses the public one.
"""

#: {library: {full name: its purpose}}
NAMES = {
    "torch": {
        # loaders, which millrace's are, too: frameworks and torch's own methods read these, and set some
        "torch.utils.data.DataLoader._dataset_kind": "whether the dataset is a stream",
        "torch.utils.data.DataLoader._auto_collation": "whether samples are made into batches",
        "torch.utils.data.DataLoader._index_sampler": "the sampler whose index lists are drawn",
        "torch.utils.data.DataLoader._iterator": "persistent workers' iterator",
        "torch.utils.data.DataLoader._get_iterator": "what iter(loader) calls",
        # iterators, the same
        "torch.utils.data.dataloader._BaseDataLoaderIter._dataset": "what it reads",
        "torch.utils.data.dataloader._BaseDataLoaderIter._base_seed": "workers' seeds begin with it",
        "torch.utils.data.dataloader._BaseDataLoaderIter._shared_seed": "DataPipes' seed, alike on all ranks",
        "torch.utils.data.dataloader._BaseDataLoaderIter._sampler_iter": "where the sampler is",
        "torch.utils.data.dataloader._BaseDataLoaderIter._num_workers": "torch's __init__ sets it",
        "torch.utils.data.dataloader._BaseDataLoaderIter._num_yielded": "frameworks count batches by it",
        "torch.utils.data.dataloader._BaseDataLoaderIter._next_data": "what torch's __next__ calls",
        "torch.utils.data.dataloader._BaseDataLoaderIter._reset": "begins an epoch of persistent workers",
        "torch.utils.data.dataloader._BaseDataLoaderIter._world_size": "how many ranks torch counted",
        "torch.utils.data.dataloader._BaseDataLoaderIter._rank": "and which of them this is",
        "torch.utils.data.dataloader._BaseDataLoaderIter._pin_memory": "whether batches are pinned",
        "torch.utils.data.dataloader._BaseDataLoaderIter._pin_memory_device": "and for which device",
        "torch.utils.data.dataloader._BaseDataLoaderIter._timeout": "how long a batch is waited for",
        "torch.utils.data.dataloader._BaseDataLoaderIter._IterableDataset_len_called": (
            "a stream that is longer than it says is warned of"
        ),
        "torch.utils.data._utils.worker._RNG": "WorkerInfo has generators of the worker's own",
        # elsewhere
        "torch.Tensor._is_zerotensor": "a tensor that has no memory is not read there",
        "torch.nn.Module._forward_hooks": "a module with hooks does more than its class",
        "torch.nn.Module._forward_pre_hooks": "the same",
        "torch.utils.data.RandomSampler._num_samples": "whether bench may give shuffle=True for it",
    },
    "torchdata": {
        # the keys of StatefulDataLoader's states: one loads in millrace, and back
        "torchdata.stateful_dataloader.stateful_dataloader._num_yielded": "batches that were delivered",
        "torchdata.stateful_dataloader.stateful_dataloader._iterator_finished": "whether it stood at an end",
        "torchdata.stateful_dataloader.stateful_dataloader._IterableDataset_len_called": "nothing, here",
        "torchdata.stateful_dataloader.stateful_dataloader._shared_seed": "DataPipes' seed",
        "torchdata.stateful_dataloader.stateful_dataloader._base_seed": "workers' seeds begin with it",
        "torchdata.stateful_dataloader.stateful_dataloader._num_workers": "how many workers it had",
        "torchdata.stateful_dataloader.stateful_dataloader._index_sampler_state": "where the sampler was",
        "torchdata.stateful_dataloader.stateful_dataloader._sampler_iter_state": "where its iterator was",
        "torchdata.stateful_dataloader.stateful_dataloader._sampler_iter_yielded": "how many lists it gave",
        "torchdata.stateful_dataloader.stateful_dataloader._snapshot": "the position that workers begin at",
        "torchdata.stateful_dataloader.stateful_dataloader._snapshot_step": "which batch that is",
        "torchdata.stateful_dataloader.stateful_dataloader._steps_since_snapshot": "batches after it",
        "torchdata.stateful_dataloader.stateful_dataloader._main_snapshot": "the training process's part",
        "torchdata.stateful_dataloader.stateful_dataloader._worker_snapshots": "the workers' parts",
        "torchdata.stateful_dataloader.stateful_dataloader._last_yielded_worker_id": "whose batch was last",
    },
    "torchvision": {
        "torchvision.transforms._functional_pil": "asked whether its functions are as shipped",
        "torchvision.transforms._functional_tensor": "the same",
        "torchvision.transforms._presets": "Weights.transforms() gives objects of its class",
        "torchvision.transforms.v2._utils": "asked whether its functions are as shipped",
        "torchvision.transforms.v2._container": "the same, of Compose",
        "torchvision.transforms.v2.Transform._call_kernel": "the same, of what forward() calls",
        "torchvision.transforms.v2.Transform._needs_transform_list": "the same",
        "torchvision.transforms.v2.functional._color._permute_channels_image_pil": "is recorded, not run",
        "torchvision.transforms.v2.functional._type_conversion": "asked whether to_image() is as shipped",
        "torchvision.transforms.v2.functional._utils._KERNEL_REGISTRY": "kernels that users registered run",
        "torchvision.transforms.v2.MixUp._dist": "shows that it draws from torch alone",
        "torchvision.transforms.v2.MixUp._labels_getter": "the same",
        "torchvision.transforms.v2.MixUp._mixup_label": "the same",
        "torchvision.transforms.RandAugment._augmentation_space": "subclasses may have tables of their own",
        "torchvision.transforms.v2.RandAugment._AUGMENTATION_SPACE": "the same",
        "torchvision.transforms.AutoAugment._get_policies": "the same",
        "torchvision.transforms.v2.AutoAugment._policies": "what was chosen of the table",
        "torchvision.io.image._has_image_ops": "whether its operators could be loaded",
        # of datasets: their pictures, and the attributes that decide on these in __getitem__
        "torchvision.datasets.Imagenette._samples": "paths and labels",
        "torchvision.datasets.Food101._image_files": "paths",
        "torchvision.datasets.Food101._labels": "their labels",
        "torchvision.datasets.LFWPeople._loader": "what opens a picture",
        "torchvision.datasets.OxfordIIITPet._images": "paths",
        "torchvision.datasets.OxfordIIITPet._bin_labels": "their labels",
        "torchvision.datasets.OxfordIIITPet._segs": "known in its code",
        "torchvision.datasets.OxfordIIITPet._target_types": "which labels were asked for",
        "torchvision.datasets.mnist._Image_fromarray": "known in its code",
    },
    "torchcodec": {
        "torchcodec.decoders._image_decoders": "JPEGs that it decodes wait, too",
        "torchcodec.decoders._image_decoders._decode_jpeg": "the function that is replaced",
    },
    "timm": {
        "timm.data.loader._worker_init": "a worker_init_fn that only seeds",
        "timm.data.dataset._logger": "known in the code of ImageDataset",
        "timm.data.dataset._max_retries": "the same",
        "timm.data.dataset._ERROR_RETRY": "the same",
        "timm.data.dataset._consecutive_errors": "the same",
        # the meaning of a policy's level; the engine has the same functions
        "timm.data.auto_augment._rotate_level_to_arg": "degrees",
        "timm.data.auto_augment._shear_level_to_arg": "a slope",
        "timm.data.auto_augment._translate_abs_level_to_arg": "pixels",
        "timm.data.auto_augment._translate_rel_level_to_arg": "a share of the side",
        "timm.data.auto_augment._enhance_level_to_arg": "a factor",
        "timm.data.auto_augment._enhance_increasing_level_to_arg": "a factor",
        "timm.data.auto_augment._minmax_level_to_arg": "between two bounds",
        "timm.data.auto_augment._posterize_level_to_arg": "bits",
        "timm.data.auto_augment._posterize_increasing_level_to_arg": "bits",
        "timm.data.auto_augment._posterize_original_level_to_arg": "bits",
        "timm.data.auto_augment._solarize_level_to_arg": "a threshold",
        "timm.data.auto_augment._solarize_increasing_level_to_arg": "a threshold",
        "timm.data.auto_augment._solarize_add_level_to_arg": "what is added",
    },
    "PIL": {
        "PIL.Image.Image._im": "a picture that waits has no pixels there",
        "PIL.Image.Image._new": "makes a picture that waits, of another",
        "PIL.ImageFile.ImageFile._exclusive_fp": "whether Pillow opened the file, and closes it",
        "PIL.ImageFile.ImageFile._close_exclusive_fp_after_loading": "the same",
        "PIL.ImageEnhance._Enhance": "changes of colour are recorded",
        "PIL.PngImagePlugin.PngImageFile._PngImageFile__idat": "Pillow reads on after the pixels",
        "PIL.PngImagePlugin.PngImageFile._PngImageFile__prepare_idat": "whether it stands before them",
        "PIL.WebPImagePlugin.WebPImageFile._WebPImageFile__loaded": "which frame Pillow has decoded",
        "PIL.WebPImagePlugin.WebPImageFile._WebPImageFile__physical_frame": "the same",
        "PIL.WebPImagePlugin.WebPImageFile._decoder": "shows whether its libwebp gives the engine's pixels",
    },
    "datasets": {
        "datasets.Dataset._indices": "what select() and shuffle() left: datasets has no public name for it",
        "datasets.Dataset._getitem": "asked whether it is as shipped",
        "datasets.Dataset._format_kwargs": "the profile finds the transform, in any object's attributes",
        "datasets.Features._column_requires_decoding": "which columns are more than numbers",
        "datasets.IterableDataset._starting_state_dict": "a state that it keeps for all later epochs",
        "datasets.formatting._FORMAT_TYPES": "whether a format is the one that is shipped",
    },
    "accelerate": {
        "accelerate.state.GradientState._shared_state": "empty where nobody has asked for gradients' state",
    },
    "xarray": {
        "xarray.Variable._data": "a lazy array, which `data` would load into the user's object",
    },
    "obstore": {
        "obstore._obstore": "a forked child gets the compiled part anew, with threads of its own",
    },
    "numpy": {
        "numpy.random.mtrand._rand": "the generator behind numpy.random's functions",
        "numpy.random.mtrand._rand._bit_generator": "its kind and state; get_bit_generator() began in 1.24",
    },
    "python": {
        "os._exit": "documented: ends a process without cleaning up",
        "sys._getframe": "documented: which call of the script led here",
        "sys._current_frames": "documented: what other threads do",
        "sys._is_gil_enabled": "documented: whether there is a GIL",
        "runpy._run_module_as_main": "what `python -m` calls",
        "random._inst": "the generator behind random's functions",
        "threading._RLock._is_owned": "whether this thread holds the lock",
        "multiprocessing.process.BaseProcess._config": "goes to child processes, which install() there",
        "multiprocessing.forkserver._forkserver": "the server that may not have started yet",
        "multiprocessing.forkserver.ForkServer._preload_modules": "what it will import",
    },
}

#: The names that only some versions have; the code that uses them first checks that they exist.
SOME_VERSIONS = {
    "PIL.Image.Image._im": "from 11 on",
    "sys._is_gil_enabled": "from 3.13 on",
    "timm.data.dataset._ERROR_RETRY": "of the generation before",
    "timm.data.dataset._consecutive_errors": "of the generation before",
    "torch.utils.data._utils.worker._RNG": "from 2.11 on",
}

#: Symbols of torch's shared libraries that C++ looks up and can do without (src/tensors/torch_api.h has the
#: reasons; `_core.missing_in_torch()` tells the consequences).
SYMBOLS = {
    "_ZN3c1035newStorageImplFromRefcountedDataPtrERKNS_7StorageE": "libc10.so: a second owner of memory",
    "_ZN2at12hasCallbacksEv": "libtorch_cpu.so: whether anybody listens to operations",
    "aoti_torch_empty_strided_pinned": "libtorch_cpu.so: page-locked memory of torch's own",
    "aoti_torch_get_strides": "libtorch_cpu.so: the small tensors' fields, read quickly",
}
