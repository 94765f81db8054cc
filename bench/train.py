"""Who takes part in `script/bench train`, with which models, and what must be reached."""

import atexit
import dataclasses
import functools
import pathlib
import random
import tempfile

import contest
import report
import train_memory
from contest import Contestant, Skipped
from report import Figure, Section

# Test examples are few because nobody is timed on them.
DATA = "synthetic:1x28x28,classes=10,train=60000,test=1000"
COLOURED = "synthetic:3x32x32,classes=10,train=20000,test=200"  # of CIFAR-10's form
# Fewer, so that memory is the model's.
MEMORY_DATA = "synthetic:1x28x28,classes=10,train=16384,test=256"
MEMORY_SECONDS = 3
# Debian's, because its python3-torch runs on the very libtorch that paceline links.
PYTHON = "/usr/bin/python3"
DDP = str(pathlib.Path(__file__).resolve().parent / "peers" / "ddp_train.py")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SECONDS = {"usual": 6, "quick": 1.5}
CALIBRATION_STEPS = 15


@functools.cache
def random_text():
    """A file of random characters, for those who train on text; gone when the benchmark ends."""
    file = tempfile.NamedTemporaryFile(prefix="paceline-bench.", suffix=".txt")
    atexit.register(file.close)
    letters = bytes(range(58, 58 + 65))
    file.write(bytes(random.Random(1).choices(letters, k=1 << 20)))
    file.flush()
    return f"text:{file.name},length=64,test=1%"


@dataclasses.dataclass(frozen=True)
class Workload:
    model: str
    batch: int  # of one worker
    parameters: int
    data: str = DATA
    least_steps: int = 30

    def data_options(self):
        return ["--data", self.data or random_text()]

    def options(self, steps):
        return ["--model", self.model, "--batch", str(self.batch), "--lr", "0.01", "--steps", str(steps)]


MLP = Workload("mlp:2048x3", 64, 10_020_874)
SMALL_BATCH = dataclasses.replace(MLP, batch=16)
CNN = Workload("cnn", 64, 824_458)
RESNET = Workload("resnet18", 16, 11_173_962, COLOURED, least_steps=12)
TRANSFORMER = Workload("transformer:4,256,4", 16, 3_224_576, data="")
ALL = [MLP, SMALL_BATCH, CNN, RESNET, TRANSFORMER]

BARS = {
    MLP: {"ddp": 1.8, "limit": 0.92},
    SMALL_BATCH: {"ddp": 3, "limit": 0.85},
    CNN: {"ddp": 1.05, "limit": 0.97},
    RESNET: {"ddp": 1, "limit": 0.97},
    TRANSFORMER: {"ddp": 1.1, "limit": 0.95},
}
PLAIN_BAR = {"plain": 0.9901}  # a step may cost 1% more


def timeout(seconds):
    return 120 + 20 * seconds


def side_by_side(folder, ranks, workload, steps, seconds):
    """Samples/s of plain loops that do not talk, added up."""
    command = [f"{folder}/bench_train_limit", *workload.options(steps), *workload.data_options(), "--gate"]
    commands = [command + ["--seed", str(rank + 1)] for rank in range(ranks)]
    found = contest.run_together(commands, timeout(seconds), ONE_THREAD)
    return sum(points[-1]["samples_per_s"] for points in found)


@functools.cache
def steps_for(folder, workload, seconds):
    """As many as the plain loop takes in that time; the same number for everybody."""
    rate = side_by_side(folder, 1, workload, CALIBRATION_STEPS, seconds)
    return max(workload.least_steps, round(seconds * rate / workload.batch))


def limit(folder, ranks, workload, seconds):
    steps = steps_for(folder, workload, seconds)
    return {"samples_per_s": side_by_side(folder, ranks, workload, steps, seconds), "steps": steps}


def paceline_command(folder, ranks, workload, steps, out, optimizer="sgd"):
    command = [f"{folder}/paceline", "train", *workload.options(steps), *workload.data_options(), "--workers", str(ranks)]
    return command + ["--threads", "1", "--optimizer", optimizer, "--json", "--out", f"{out}/run"]


def paceline(folder, ranks, workload, seconds):
    steps = steps_for(folder, workload, seconds)
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
        command = paceline_command(folder, ranks, workload, steps, out)
        lines = contest.run(command, timeout(seconds), ONE_THREAD)
    final = [line for line in lines if line.get("final")]
    if not final:
        raise Skipped('it printed no line with "final": true')
    return {"samples_per_s": final[-1]["samples_per_s"], "steps": steps}


def ddp(*options):
    def measure(folder, ranks, workload, seconds):
        steps = steps_for(folder, workload, seconds)
        command = [PYTHON, DDP, *workload.options(steps), "--workers", str(ranks), *options]
        found = contest.run(command, timeout(seconds), ONE_THREAD)
        return {"samples_per_s": found[-1]["samples_per_s"], "steps": steps}

    return measure


def memory(folder, ranks, workload, seconds):
    """Momentum, because it is what most people train with; with plain SGD there would be no optimizer state."""
    steps = steps_for(folder, workload, MEMORY_SECONDS)
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
        small = dataclasses.replace(workload, data=MEMORY_DATA)
        command = paceline_command(folder, ranks, small, steps, out, "momentum")
        with contest.started(command, ONE_THREAD) as process:
            point = train_memory.watch(process, ranks, timeout(seconds))
            contest.points_of(process, timeout=1)
    return point


CONTESTANTS = [
    Contestant("paceline", 2, ALL, paceline),
    Contestant("limit", 2, ALL, limit),
    Contestant("ddp", 2, ALL, ddp()),
    Contestant("ddp tuned", 2, ALL, ddp("--tuned")),
    Contestant("paceline", 1, ALL, paceline),
    Contestant("plain", 1, ALL, limit),
    Contestant("memory", 2, [MLP], memory),
    Contestant("memory", 1, [MLP], memory),
]

SPEED = Figure(
    "samples_per_s",
    more_is_better=True,
    show=lambda point, _: report.digits(point["samples_per_s"]),
    heading="model, batch per worker",
    label=lambda workload: f"{workload.model}, {workload.batch}",
    describe=lambda workload: {"model": workload.model, "batch": workload.batch},
)

SECTIONS = [
    Section("2 workers with one thread each, samples/s", SPEED, "paceline", 2, ALL, ["ddp", "ddp tuned", "limit"], BARS.get),
    Section("1 worker with one thread, samples/s", SPEED, "paceline", 1, ALL, ["plain"], lambda _: PLAIN_BAR),
]


def memory_use(results):
    state = 3 * 4 * MLP.parameters  # parameters, gradients and momentum, f32
    return train_memory.overheads(results, MLP, state)


def tables(results):
    title = f"Memory of a worker, {MLP.model} with momentum: of two, beside one alone"
    return [*report.tables(SECTIONS, results), (title, train_memory.table(memory_use(results)))]


def json_points(results):
    """Every single measurement, then what the tables show."""
    every = [
        {"contestant": name, "workers": ranks, "model": case.model, "batch": case.batch, "round": number + 1, **point}
        for number, found in enumerate(results)
        for (name, ranks), points in found.items()
        for case, point in points.items()
    ]
    return every + report.section_points(SECTIONS, results) + [{"section": "memory", "kinds": memory_use(results)}]
