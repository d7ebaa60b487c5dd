"""A model zoo with one model, y = 3 x. Its data takes a minute, so that ps check their master."""

import time

import tensorflow as tf
from elasticdl.python.data.reader.data_reader import AbstractDataReader, Metadata

RECORDS = 2400
SECONDS = 0.04


class Line(AbstractDataReader):
    """Numbers from 0 to 1. Each takes a worker some time."""

    def read_records(self, task):
        for index in range(task.start, task.end):
            time.sleep(SECONDS)
            yield str(index % 100 / 100)

    def create_shards(self):
        return {"line": (0, RECORDS)}

    @property
    def records_output_types(self):
        return tf.string

    @property
    def metadata(self):
        return Metadata(column_names=None)


def custom_data_reader(**kwargs):
    return Line(**kwargs)


def custom_model():
    inputs = tf.keras.Input(shape=(1,))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))


def dataset_fn(dataset, mode, metadata):  # noqa: ARG001 - as ElasticDL calls it
    def example(record):
        x = tf.reshape(tf.strings.to_number(record), (1,))
        return x, 3 * x

    return dataset.map(example)


def loss(labels, predictions):
    return tf.reduce_mean(tf.square(labels - predictions))


def optimizer():
    return tf.optimizers.SGD(0.3)


def eval_metrics_fn():
    return {}
