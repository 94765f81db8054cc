"""`script/bench sync`: how long until a loss is reached, by when updates meet, with workers that are slow now and then
or always; then what plans cost in accuracy (sync_accuracy.py). Times are training time, without evaluation."""

import dataclasses
import statistics
import tempfile

import contest
import report
import sync_accuracy
from contest import Contestant, Skipped

WORKERS, SERVERS = 4, 2
# A model whose steps are long beside what they send: a straggler costs what it computes longer.
MODEL, DATA, BATCH, LR = "lenet", "fashion", 32, 0.1
TARGET = 0.5  # loss on the test set
# What --seconds stands for is how many epochs a run may take at most.
SECONDS = {"usual": 6, "quick": 4}
ROUNDS = 5

PLANS = {
    "bsp": ["--when", "bsp"],
    "ssp:3": ["--when", "ssp:3"],
    "essp:3": ["--when", "essp:3"],
    "async": ["--when", "async", "--divide-by-staleness"],
    "softsync": ["--when", f"softsync:{WORKERS}"],
}
BARS = {("ssp:3", "random:3"): 1.5, ("essp:3", "random:3"): 1.5}


@dataclasses.dataclass(frozen=True)
class Case:
    handicap: str


CASES = [Case("none"), Case("random:3"), Case("fixed:3:3")]


def command(folder, plan, case, epochs, seed):
    words = [f"{folder}/paceline", "train", "--model", MODEL, "--data", DATA, "--workers", str(WORKERS)]
    words += ["--threads", "1", "--batch", str(BATCH), "--optimizer", "sgd", "--lr", str(LR), "--epochs", str(epochs)]
    words += ["--until", f"loss={TARGET}", "--seed", str(seed), "--where", f"server:{SERVERS}", *PLANS[plan], "--json"]
    return words if case.handicap == "none" else [*words, "--handicap", case.handicap]


def time_to(lines, target=TARGET):
    """Seconds until the loss was reached, between two epochs by the line between them."""
    before = (0.0, None)
    for line in lines:
        if "test_loss" not in line or line.get("final"):
            continue
        seconds, loss = line["seconds"], line["test_loss"]
        if loss <= target:
            if before[1] is None:
                return seconds
            share = (before[1] - target) / (before[1] - loss)
            return before[0] + share * (seconds - before[0])
        before = (seconds, loss)
    return None


def point_of(lines):
    epochs = [line for line in lines if "staleness" in line and not line.get("final")]
    if not epochs:
        raise Skipped("it printed no line with a staleness")
    staleness = epochs[-1]["staleness"]
    found = {"mean": staleness["mean"], "variance": staleness["variance"], "violations": staleness["violations"]}
    found["wait"] = statistics.mean(line["wait_share"] for line in epochs)
    seconds = time_to(lines)
    return found if seconds is None else {**found, "seconds": seconds}


def measure(plan):
    runs = {"seed": 0}

    def run(folder, ranks, case, epochs):
        runs["seed"] += 1
        with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
            words = command(folder, plan, case, int(epochs), 1 + runs["seed"] // len(CASES))
            return point_of(contest.run([*words, "--out", f"{out}/run"], timeout=600))

    return run


CONTESTANTS = [*(Contestant(plan, WORKERS, CASES, measure(plan)) for plan in PLANS), *sync_accuracy.CONTESTANTS]


def ratios(results, plan, case):
    """bsp's time over the plan's, in each round that has both."""
    found = []
    for round_ in results:
        points = [round_.get((name, WORKERS), {}).get(case, {}) for name in ("bsp", plan)]
        if all("seconds" in (point or {}) for point in points):
            found.append(points[0]["seconds"] / points[1]["seconds"])
    return found


def row(results, plan, case):
    medians = report.medians(results, (plan, WORKERS), case, ("mean", "variance", "violations", "wait"))
    seconds = report.medians(results, (plan, WORKERS), case, ("seconds",))
    if not medians:
        return [case.handicap, plan, *["not measured"] * 6]
    sooner = ratios(results, plan, case)
    bar = BARS.get((plan, case.handicap))
    shown = f"{statistics.median(sooner):.2f}" if sooner else "not reached"
    verdict = "" if bar is None else f"{bar:g} {'met' if sooner and statistics.median(sooner) >= bar else 'SHORT'}"
    return [
        case.handicap,
        plan,
        f"{seconds['seconds']:.2f}" if seconds else "–",
        shown,
        verdict,
        f"{medians['wait']:.0%}",
        f"{medians['mean']:.2f}",
        f"{medians['variance']:.2f}",
        f"{medians['violations']:g}",
    ]


def tables(results):
    head = ["handicap", "plan", "seconds", "× bsp", "bar", "waiting", "staleness", "variance", "past the bound"]
    rows = [head, *(row(results, plan, case) for case in CASES for plan in PLANS)]
    title = f"Until a test loss of {TARGET}: {MODEL} on {DATA}, {WORKERS} workers with batches of {BATCH}, {SERVERS} servers"
    return [(title, rows), *sync_accuracy.tables(results)]


def json_points(results):
    timed = [
        {"section": "time", "plan": name, **dataclasses.asdict(case), **point}
        for round_ in results
        for (name, _), points in round_.items()
        for case, point in points.items()
        if isinstance(case, Case)
    ]
    return [*timed, *sync_accuracy.json_points(results)]
