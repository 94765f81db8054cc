"""PyTorch's DistributedDataParallel over Gloo, one process per worker on loopback: what people use today to train with
several processes on CPUs. Prints one JSON line. With --rank it is one worker of several hosts, which meet at --master.

The loop is that of PyTorch's own tutorials; what it would lose by chance it does not lose here: batches lie ready in
memory as normalised tensors, and nothing but the loss is read in a step.
"""

import argparse
import json
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    sys.exit(f"python3-torch is not installed: {error}")

import models  # beside this file

WARM_UP = 5  # steps that are not timed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mlp:2048x3", help="mlp:WIDTHxLAYERS, cnn, resnet18 or transformer:LAYERS,WIDTH,HEADS")
    parser.add_argument("--batch", type=int, default=64, help="of one worker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--tuned", action="store_true", help="gradients live in the buckets and are not zeroed but dropped")
    parser.add_argument("--rank", type=int, help="this one only; the others are started elsewhere")
    parser.add_argument("--master", metavar="ADDRESS:PORT", help="where rank 0 is; GLOO_SOCKET_IFNAME says which device")
    arguments = parser.parse_args()
    if (arguments.rank is None) != (arguments.master is None):
        parser.error("--rank and --master belong together")
    if arguments.steps <= WARM_UP:
        parser.error(f"--steps must be above {WARM_UP}, which are not timed")
    return arguments


def train(model, batches, arguments):
    """Seconds of the timed steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    drop = {"set_to_none": True} if arguments.tuned else {}
    start = time.perf_counter()
    for step in range(arguments.steps):
        if step == WARM_UP:
            start = time.perf_counter()
        inputs, answers = batches[step % len(batches)]
        optimizer.zero_grad(**drop)
        loss = models.loss_of(model(inputs), answers)
        loss.backward()
        optimizer.step()
        loss.item()
    return time.perf_counter() - start


def work(rank, arguments, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=arguments.workers)
    batches = models.make_batches(arguments.model, arguments.batch, rank)
    model = models.make_model(arguments.model)
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=arguments.tuned)
    dist.barrier()
    seconds = train(parallel, batches, arguments)
    dist.barrier()  # whoever closes first would break the other's last step
    if rank == 0:
        samples = arguments.workers * arguments.batch * (arguments.steps - WARM_UP)
        asked = {name: getattr(arguments, name) for name in ("model", "batch", "workers", "steps", "tuned")}
        parameters = sum(parameter.numel() for parameter in model.parameters())
        print(json.dumps({**asked, "parameters": parameters, "samples_per_s": round(samples / seconds, 2)}), flush=True)
    dist.destroy_process_group()


def main():
    arguments = parse_arguments()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if arguments.rank is not None:
        return work(arguments.rank, arguments, f"tcp://{arguments.master}")
    with tempfile.TemporaryDirectory(prefix="bench_ddp.") as folder:
        multiprocessing.spawn(work, args=(arguments, f"file://{folder}/store"), nprocs=arguments.workers)


if __name__ == "__main__":
    main()
