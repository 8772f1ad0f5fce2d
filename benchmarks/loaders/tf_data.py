"""tf.data: decodes only the crop, antialiased resize, a private pool of as many threads as workers."""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.scenarios.imagenet import MEAN, STD

ENVIRONMENT = "tf-data"
PACKAGES = ("tensorflow-cpu", "numpy")
TOLERANCE = Tolerance(6, 255, "its own antialiased filter; a box rounded to pixels")


def open_epochs(job: Job):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(job.workers)
    tf.config.threading.set_inter_op_parallelism_threads(job.workers)
    scenario, samples = job.scenario, job.samples
    mean, std = tf.constant(MEAN) * 255, tf.constant(STD) * 255

    def sample(path, label):
        encoded = tf.io.read_file(path)
        shape = tf.io.extract_jpeg_shape(encoded)
        if scenario.train:
            begin, size, _ = tf.image.sample_distorted_bounding_box(
                shape,
                tf.zeros([1, 0, 4]),
                area_range=(0.08, 1.0),
                aspect_ratio_range=(3 / 4, 4 / 3),
                max_attempts=10,
                use_image_if_no_bounding_boxes=True,
            )
            top, left, _ = tf.unstack(begin)
            height, width, _ = tf.unstack(size)
        else:
            side = tf.cast(tf.minimum(shape[0], shape[1]), tf.float32) * (scenario.size / scenario.resize)
            height = width = tf.cast(side, tf.int32)
            top, left = (shape[0] - height) // 2, (shape[1] - width) // 2
        image = tf.image.decode_and_crop_jpeg(
            encoded, tf.stack([top, left, height, width]), channels=3, dct_method="INTEGER_ACCURATE"
        )
        image = tf.image.resize(image, (scenario.size, scenario.size), antialias=True)
        if scenario.train:
            image = tf.image.random_flip_left_right(image)
        return tf.transpose((image - mean) / std, (2, 0, 1)), label

    dataset = tf.data.Dataset.from_tensor_slices(([p for p, _ in samples], [c for _, c in samples]))
    if scenario.train:
        dataset = dataset.shuffle(len(samples))
    options = tf.data.Options()
    options.threading.private_threadpool_size = job.workers
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False  # its thread sleeps for seconds, and an iterator's end waits for it
    dataset = (
        dataset.map(sample, num_parallel_calls=job.workers)
        .batch(scenario.batch)
        .prefetch(2)
        .with_options(options)
    )
    return dataset.as_numpy_iterator
