"""`script/bench largebatch`: what a large batch costs in accuracy, how much of it noise gives back, and what batches are
worth in passes and time. Beside the table of Wen et al. (AISTATS 2020)."""

import dataclasses
import functools
import math
import pathlib
import statistics
import tempfile

import contest
import largebatch_picture
import report
from contest import Contestant, Skipped

MODEL, WORKERS = "lenet", 2
SMALL, LARGE = 128, 4096  # examples of a step, all workers together
PART = 64  # of a large batch, from whose gradients the noise is learned: 64 of them in a step
BASE_LR = 0.02  # of the small batch, momentum 0.9
MOST_LR = 0.05  # with 0.113, by the root of 4,096, lenet's loss grew in the second pass, from 2.17 to 2.72
SEEDS = [1, 2, 3]
# What --seconds stands for is not time but how much is done: passes over the data of each run.
SECONDS = {"usual": 30, "quick": 3}
ROUNDS = 1  # the seeds are the repetitions
QUICK_SEEDS = SEEDS[:1]

MNIST = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist"
SOURCES = {"fashion": "fashion", "mnist": f"mnist:{MNIST}"}
METHODS = ["small", "large", "large + trace", "large + diag"]
# Percent of the test set, LeNet.
PUBLISHED = {
    "fashion": {"small": 91.15, "large": 88.89, "large + trace": 90.29, "large + diag": 90.79},
    "mnist": {"small": 99.10, "large": 98.88, "large + trace": 99.02, "large + diag": 99.11},
}

BATCHES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
TARGET = 0.85  # of Fashion-MNIST's test set: the small batch has it after two or three passes
MOST_PASSES = 30


@dataclasses.dataclass(frozen=True)
class Accuracy:
    data: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Passes:
    batch: int


def scaled_lr(batch):
    """By the root of the batch, so that the noise of an update keeps its size (Krizhevsky 2014; Hoffer, Hubara & Soudry 2017)."""
    return min(MOST_LR, BASE_LR * math.sqrt(batch / SMALL))


def command(folder, data, batch, seed, *more):
    words = [f"{folder}/paceline", "train", "--model", MODEL, "--data", SOURCES[data], "--workers", str(WORKERS)]
    words += ["--threads", "1", "--optimizer", "momentum", "--batch", str(batch // WORKERS), "--lr", f"{scaled_lr(batch):.5g}"]
    return [*words, "--seed", str(seed), "--json", *more]


def options_of(method):
    """(batch, further words) of a run."""
    if method == "small":
        return SMALL, []
    if method == "large":
        return LARGE, []
    kind = {"large + trace": "fisher-trace", "large + diag": "fisher-diag"}[method]
    return LARGE, ["--micro-batch", str(PART), "--noise", f"{kind}:{SMALL}"]


def run(words, passes):
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
        return contest.run([*words, "--out", f"{out}/run"], timeout=300 + 120 * passes)


def epochs_of(lines):
    """The lines of epochs, without the last one, which repeats what is known."""
    found = [line for line in lines if "test_accuracy" in line and not line.get("final")]
    if not found:
        raise Skipped("it printed no line with a test_accuracy")
    return found


def accuracy_point(lines):
    last = epochs_of(lines)[-1]
    return {"accuracy": 100 * last["test_accuracy"], "loss": last["loss"], **place_of(last)}


def place_of(line):
    return {"passes": line["epoch"], "steps": line["step"], "seconds": line["seconds"]}


def passes_point(lines, target=TARGET):
    """Where the target was first reached, or None where it was not."""
    for line in epochs_of(lines):
        if line["test_accuracy"] >= target:
            return place_of(line)
    return None


@functools.cache
def mnist_is_there():
    if not MNIST.is_dir():
        contest.say(f"skipped: mnist, because there is no {MNIST}")
    return MNIST.is_dir()


def accuracy(method):
    def measure(folder, ranks, case, passes):
        if passes <= SECONDS["quick"] and case.seed not in QUICK_SEEDS:
            return None
        if case.data == "mnist" and not mnist_is_there():
            return None
        batch, more = options_of(method)
        words = command(folder, case.data, batch, case.seed, "--epochs", f"{passes:.0f}", "--schedule", "cosine", *more)
        return accuracy_point(run(words, passes))

    return measure


def passes_to_target(folder, ranks, case, passes):
    most = MOST_PASSES if passes > SECONDS["quick"] else 4 * SECONDS["quick"]
    words = command(folder, "fashion", case.batch, 1, "--epochs", str(most), "--until", f"accuracy={TARGET}")
    return passes_point(run(words, most))


ACCURACIES = [Accuracy(data, seed) for data in SOURCES for seed in SEEDS]
CONTESTANTS = [
    *(Contestant(method, WORKERS, ACCURACIES, accuracy(method)) for method in METHODS),
    Contestant("passes", WORKERS, [Passes(batch) for batch in BATCHES], passes_to_target),
]

# ---- what was found


def accuracies(results, data, method):
    """Of all seeds and rounds, in percent."""
    found = [(case, point) for round_ in results for case, point in round_.get((method, WORKERS), {}).items()]
    return [point["accuracy"] for case, point in found if case.data == data]


def mean_and_deviation(values):
    if not values:
        return None
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None


def shown(found):
    if found is None:
        return "not measured"
    mean, deviation = found
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def order_of(means):
    """What the paper's order, small > large + diag > large, is here. One that is within the runs' own scatter is said to be."""
    needed = [means.get(method) for method in ("small", "large + diag", "large")]
    if any(found is None for found in needed):
        return "not measured"
    if not all(one[0] > other[0] for one, other in zip(needed, needed[1:])):
        return "NO"
    scatter = [found[1] for found in needed if found[1] is not None]
    if len(scatter) < len(needed):
        return "yes, of one seed"
    close = any(one[0] - other[0] < math.hypot(one[1], other[1]) for one, other in zip(needed, needed[1:]))
    return "yes, within the scatter" if close else "yes"


def summary_of(results, data):
    return {method: mean_and_deviation(accuracies(results, data, method)) for method in METHODS}


def accuracy_table(results):
    rows = [["data", *METHODS, "seeds", "small > diag > large"]]
    for data in SOURCES:
        found = summary_of(results, data)
        seeds = max(len(accuracies(results, data, method)) for method in METHODS)
        rows.append([data, *(shown(found[method]) for method in METHODS), str(seeds), order_of(found)])
        published = [f"{PUBLISHED[data][method]:.2f}" for method in METHODS]
        rows.append([f"{data}, published", *published, "", "yes" if published_order(data) else "NO"])
    return rows


def published_order(data):
    row = PUBLISHED[data]
    return row["small"] > row["large + diag"] > row["large"]


def passes_found(results):
    """{batch: medians over the rounds}, of the batches that reached the target."""
    figures = ("passes", "steps", "seconds")
    found = {batch: report.medians(results, ("passes", WORKERS), Passes(batch), figures) for batch in BATCHES}
    return {batch: point for batch, point in found.items() if point}


def speed_ups(results):
    """Against the smallest batch that reached the target: in steps, which is what workers without number would gain, and
    in the time that it took on this machine."""
    found = passes_found(results)
    if not found:
        return {}, {}
    base = found[min(found)]
    in_steps = {batch: base["steps"] / point["steps"] for batch, point in found.items()}
    return in_steps, {batch: base["seconds"] / point["seconds"] for batch, point in found.items()}


def passes_table(results):
    found, (in_steps, in_time) = passes_found(results), speed_ups(results)
    rows = [["batch", "lr", "passes", "steps", "seconds", "× in steps", "× in time"]]
    for batch in BATCHES:
        cells = ["not reached"] + ["–"] * 4
        if point := found.get(batch):
            cells = [f"{point['passes']:g}", f"{point['steps']:g}", f"{point['seconds']:.1f}"]
            cells += [f"{in_steps[batch]:.2f}", f"{in_time[batch]:.2f}"]
        rows.append([str(batch), f"{scaled_lr(batch):.3g}", *cells])
    return rows


def tables(results):
    noise = f"Test accuracy in percent, {MODEL}: batches of {SMALL} and {LARGE}, and noise that makes up for the difference"
    passes = f"Until {TARGET:.0%} of Fashion-MNIST's test set, {MODEL}, learning rate by the root of the batch, at most {MOST_LR}"
    return [(noise, accuracy_table(results)), (passes, passes_table(results))]


def json_points(results):
    every = [
        {"method": name, **dataclasses.asdict(case), **point}
        for round_ in results
        for (name, _), points in round_.items()
        for case, point in points.items()
    ]
    summary = [{"section": data, "methods": summary_of(results, data), "published": PUBLISHED[data]} for data in SOURCES]
    return every + summary


def picture(results):
    in_steps, in_time = speed_ups(results)
    passes = {batch: point["passes"] for batch, point in passes_found(results).items()}
    ideal = {batch: batch / min(in_steps) for batch in in_steps}
    panels = [
        ("Passes over the data", {"passes": passes}),
        ("Speed-up over the smallest batch", {"ideal": ideal, "in steps": in_steps, "in time": in_time}),
    ]
    return largebatch_picture.draw(panels, BATCHES, f"{MODEL} on Fashion-MNIST, until {TARGET:.0%} of the test set")
