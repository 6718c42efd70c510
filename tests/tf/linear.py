"""An Estimator job as TensorFlow's own guide has it: nothing in it knows of paceline.

    linear.py --model-dir DIR --steps N [--delay SECONDS]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import tensorflow as tf


class Slow(tf.estimator.SessionRunHook):
    """Keeps the job alive long enough for a test to do something to it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def after_run(self, run_context, run_values) -> None:
        del run_context, run_values
        time.sleep(self.seconds)


def samples():
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, size=(512, 1)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x + 2))
    return data.shuffle(512).repeat().batch(32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    config = tf.estimator.RunConfig(model_dir=options.model_dir, save_checkpoints_steps=50,
                                    log_step_count_steps=50)
    model = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], config=config,
                                         optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.05))
    tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(samples, max_steps=options.steps, hooks=[Slow(options.delay)]),
        tf.estimator.EvalSpec(samples, steps=4, throttle_secs=5))


if __name__ == "__main__":
    main()
