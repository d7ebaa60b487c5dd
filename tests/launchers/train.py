"""Trains for 20 steps, and dies once as described in `death.json`.

    train.py BACKEND --checkpoints=FOLDER

Each rank writes its steps to `log-RANK`, with the time. Rank 0 writes a checkpoint after each step.
If a rank is killed from outside, it holds all ranks at one step until they start again.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

STEPS, DIES_AT = 20, 6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", nargs="?", default="torch", choices=BACKENDS)
    parser.add_argument("--checkpoints", type=Path, default=Path("/data"))
    parser.add_argument("--data")
    wanted, _ = parser.parse_known_args()  # deepspeed adds --local_rank
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    BACKENDS[wanted.backend](wanted.checkpoints)


def train(folder, rank, total):
    """Train.

    Args:
        folder: the folder of the checkpoint.
        rank: the rank of this process.
        total: function that returns the sum of a number over all ranks.
    """
    checkpoint, held = folder / "checkpoint", folder / "held"
    death, holds = json.loads((folder / "death.json").read_text()), not held.exists()
    first = int(checkpoint.read_text()) if checkpoint.exists() else 0
    size = round(total(1))  # no rank continues before all have read the checkpoint
    write(folder, rank, "start", first)
    for step in range(first, STEPS):
        if rank == size - 1 and step == DIES_AT:
            die(folder, death)
        while step == DIES_AT and death == "held" and holds:
            held.touch()
            total(0)
            time.sleep(0.3)
        if size == 1 or total(rank) != size * (size - 1) / 2:
            sys.exit("a rank is missing")
        time.sleep(0.3)
        write(folder, rank, "step", step)
        if rank == 0:
            (folder / "next").write_text(str(step + 1))
            (folder / "next").replace(checkpoint)
    total(0)  # no rank ends before the last checkpoint is written
    # PyTorch 2.6 hangs forever if Gloo is destroyed while its thread still has a tensor.
    time.sleep(1)


def write(folder, rank, word, step):
    with (folder / f"log-{rank}").open("a") as log:
        log.write(f"{word} {step} {time.time()}\n")


def die(folder, death):
    try:
        died = (folder / "died").open("x")
    except FileExistsError:
        return
    with died:
        died.write(str(time.time()))
    if death == "exception":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if death == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if death == "SIGABRT":
        os.abort()
    if death == "exit 42":
        sys.exit(42)
    if death == "memory":
        blocks = []
        while True:
            blocks.append(b"x" * 2**25)


def over_torch(folder):
    import torch.distributed as dist

    dist.init_process_group("gloo")
    train(folder, dist.get_rank(), torch_total)
    dist.destroy_process_group()


def torch_total(value):
    import torch
    import torch.distributed as dist

    part = torch.tensor([float(value)])
    dist.all_reduce(part)
    return part.item()


def over_accelerate(folder):
    import torch
    from accelerate import Accelerator, InitProcessGroupKwargs

    backend = InitProcessGroupKwargs(backend="gloo")  # MPI is in the image, and the default
    here = Accelerator(cpu=True, kwargs_handlers=[backend])
    train(
        folder,
        here.process_index,
        lambda value: here.reduce(torch.tensor([float(value)]), "sum").item(),
    )
    here.end_training()


def over_deepspeed(folder):
    import deepspeed
    import torch.distributed as dist

    ops = deepspeed.ops.__compatible_ops__
    ops.update(dict.fromkeys(ops, False))  # the image has no compiler to build them
    deepspeed.init_distributed(dist_backend="gloo")
    train(folder, dist.get_rank(), torch_total)
    dist.destroy_process_group()


def over_mpi(folder):
    from mpi4py import MPI

    train(folder, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.allreduce)


def over_horovod(folder):
    import horovod.torch as hvd
    import torch

    hvd.init()
    train(
        folder,
        hvd.rank(),
        lambda value: hvd.allreduce(torch.tensor([float(value)]), op=hvd.Sum).item(),
    )


def over_jax(folder):
    import jax
    import jax.numpy as jnp

    rank = int(os.environ["PROCESS_ID"])
    # A process that raises an exception waits for the others, by default for five minutes.
    jax.distributed.initialize(
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=rank,
        shutdown_timeout_seconds=20,
    )
    add = jax.pmap(lambda part: jax.lax.psum(part, "all"), axis_name="all")
    train(folder, rank, lambda value: float(add(jnp.array([float(value)]))[0]))


def over_tensorflow(folder):
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def add(value):
        return strategy.reduce("SUM", strategy.run(lambda: value), None)

    rank = strategy.cluster_resolver.task_id
    train(folder, rank, lambda value: add(tf.constant(float(value))).numpy())


def over_ray(folder):
    import asyncio

    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    @ray.remote(num_cpus=0)
    class Sum:
        parts, total = (), None

        async def add(self, value):
            self.total = self.total or asyncio.get_running_loop().create_future()
            total, self.parts = self.total, (*self.parts, value)
            if len(self.parts) == 2:
                total.set_result(sum(self.parts))
                self.parts, self.total = (), None
            return await total

    @ray.remote(num_cpus=1)
    class Rank:
        def node(self):
            return ray.get_runtime_context().get_node_id()

        def train(self, rank, shared):
            train(folder, rank, lambda value: ray.get(shared.add.remote(value)))

    ray.init()
    head, group = ray.get_runtime_context().get_node_id(), [{"CPU": 1}] * 2
    apart = PlacementGroupSchedulingStrategy(placement_group(group, "STRICT_SPREAD"))
    ranks = [Rank.options(scheduling_strategy=apart).remote() for _ in group]
    ranks.sort(key=lambda each: ray.get(each.node.remote()) != head)  # rank 0 is on the head
    shared = Sum.options(max_concurrency=4).remote()
    left = [each.train.remote(rank, shared) for rank, each in enumerate(ranks)]
    while left:
        done, left = ray.wait(left)
        ray.get(done)


BACKENDS = {
    "accelerate": over_accelerate,
    "deepspeed": over_deepspeed,
    "horovod": over_horovod,
    "jax": over_jax,
    "mpi": over_mpi,
    "ray": over_ray,
    "tensorflow": over_tensorflow,
    "torch": over_torch,
}


if __name__ == "__main__":
    main()
