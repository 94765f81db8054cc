"""The second half of `script/bench sync`: what a plan costs in accuracy, and saves in bytes, beside bsp with the same
seed. A round is a seed."""

import dataclasses
import math
import statistics
import tempfile

import contest
import report
from contest import Contestant


@dataclasses.dataclass(frozen=True)
class Accuracy:
    title: str
    workers: int
    words: tuple  # of paceline train, for all plans
    plans: tuple  # ((name, words), ...); the first is what the others are compared with


# The rate is one that bsp bears. Of eight workers' gradients each finds the parameters seven updates further on, and
# async applies them all in full.
STALE = Accuracy(
    "8 workers at a rate that async does not bear: mlp:128 on digits, batch 8, sgd lr 0.3, cosine, 12 epochs, 1 server",
    8,
    ("--model", "mlp:128", "--data", "digits", "--batch", "8", "--optimizer", "sgd", "--lr", "0.3", "--schedule", "cosine", "--epochs", "12"),
    (
        ("bsp", ("--where", "server:1", "--when", "bsp")),
        ("async", ("--where", "server:1", "--when", "async")),
        ("async / staleness", ("--where", "server:1", "--when", "async", "--divide-by-staleness")),
    ),
)
FEWER = Accuracy(
    "4 workers that step on their own: mlp:128 on fashion, batch 32, momentum, 3 epochs",
    4,
    ("--model", "mlp:128", "--data", "fashion", "--batch", "32", "--optimizer", "momentum", "--epochs", "3"),
    (
        ("bsp", ("--when", "bsp")),
        ("local:8", ("--when", "local:8")),
        ("gossip:exponential", ("--where", "gossip:exponential")),
    ),
)
SETTINGS = [STALE, FEWER]
# By (setting, plan): points that it may lose at most, or must lose at least for the setting to tell anything.
MOST = {(STALE, "async / staleness"): 0.5, (FEWER, "local:8"): 0.5, (FEWER, "gossip:exponential"): 0.5}
LEAST = {(STALE, "async"): 2.0}
# Of bsp's bytes: an eighth, and some for the start and the meetings at epochs' ends.
BYTES = {(FEWER, "local:8"): 1 / 7.5}


def key_of(plan, setting):
    return (f"accuracy of {plan}", setting.workers)


def measure(words):
    seeds = {}

    def run(folder, ranks, setting, _):
        seeds[setting] = seeds.get(setting, 0) + 1
        with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
            command = [f"{folder}/paceline", "train", *setting.words, *words, "--workers", str(ranks), "--threads", "1"]
            command += ["--seed", str(seeds[setting]), "--json", "--out", f"{out}/run"]
            last = contest.run(command, timeout=600)[-1]
            return {"accuracy": 100 * last["test_accuracy"], "bytes": last["bytes_sent"]}

    return run


CONTESTANTS = [
    Contestant(*key_of(plan, setting), [setting], measure(words)) for setting in SETTINGS for plan, words in setting.plans
]


def points(results, plan, setting):
    return [found[setting] for round_ in results if setting in (found := round_.get(key_of(plan, setting), {}))]


def losses(results, plan, setting):
    """What it has lost against bsp, in points, by seed."""
    base = setting.plans[0][0]
    pairs = zip(points(results, base, setting), points(results, plan, setting))
    return [ours["accuracy"] - theirs["accuracy"] for ours, theirs in pairs]


def interval(values):
    """Half of the 95% interval of their mean, by Student's t for up to ten values."""
    if len(values) < 2:
        return math.inf
    t = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26][min(len(values), 10) - 2]
    return t * statistics.stdev(values) / math.sqrt(len(values))


def verdict(lost, share, setting, plan):
    kept = []
    if (most := MOST.get((setting, plan))) is not None:
        kept.append((f"at most {most:g}", lost <= most))
    if (least := LEAST.get((setting, plan))) is not None:
        kept.append((f"at least {least:g}", lost >= least))
    if (bytes_bar := BYTES.get((setting, plan))) is not None:
        kept.append(("an eighth of the bytes (up to 1/7.5)", share <= bytes_bar))
    return ", ".join(f"{bar}: {'met' if met else 'SHORT'}" for bar, met in kept)


def row(results, plan, setting):
    found = points(results, plan, setting)
    if not found:
        return [plan, *["not measured"] * 5]
    lost = losses(results, plan, setting)
    accuracies = [point["accuracy"] for point in found]
    share = statistics.median(point["bytes"] for point in found) / statistics.median(
        point["bytes"] for point in points(results, setting.plans[0][0], setting)
    )
    mean = statistics.mean(lost)
    return [
        plan,
        str(len(found)),
        f"{statistics.mean(accuracies):.2f}",
        "–" if plan == setting.plans[0][0] else f"{mean:.2f} ± {interval(lost):.2f}",
        f"{share:.3f}",
        verdict(mean, share, setting, plan),
    ]


def tables(results):
    head = ["plan", "seeds", "accuracy %", "points lost", "bytes × bsp", "bar"]
    return [(setting.title, [head, *(row(results, plan, setting) for plan, _ in setting.plans)]) for setting in SETTINGS]


def json_points(results):
    return [
        {"section": "accuracy", "setting": setting.title, "plan": plan, **point}
        for setting in SETTINGS
        for plan, _ in setting.plans
        for point in points(results, plan, setting)
    ]
