"""`script/bench scale`: how long an allreduce takes on up to 1,024 hosts, by algorithm. The collective code is the real
one; the hosts are simulated (scale.cpp). First the simulation is held against hosts that are network namespaces."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import queue
import statistics

import contest
import lan
import network
import report
import scale_picture
from contest import Contestant
from network import Setting, Sum

MIB = 1 << 20
SECONDS = {"usual": 0.5, "quick": 0.1}
ALGORITHMS = ["ring", "butterfly", "halving-doubling", "tree", "hierarchical", "star"]
TCP = 1448 / 1514  # of the bytes on a link, TCP's payload with 1,500 bytes per packet and time stamps

# ---- the simulation beside real sockets

CHECK_RATE, CHECK_BYTES_PER_S = "200mbit", 25e6  # slow enough for eight hosts on few cores
CHECK_BURST = "70kb"  # little: simulated ports do not run ahead after a pause
# The simulation has none. With bbr butterfly and star take up to a third longer than it says; reno is in every kernel.
CHECK_CONGESTION_CONTROL = "reno"
CHECK_RANKS = [2, 4, 8]
CHECK_SIZES = [1 * MIB, 4 * MIB]
CHECK_OPERATIONS = 1  # as many as a batch of real ones that take long has
WITHIN = 0.15

# ---- the question

RANKS = [8, 16, 32, 64, 128, 256, 512, 1024]
SIZES = [1 * MIB, 32 * MIB]
GIGABIT = 125e6
LATENCY_US = 50
QUICK_RANKS = 256  # of a quick look; 1,024 take minutes each
# Of a star with long vectors, whose root has frames from and to everybody at once: 256 take minutes, 512
# were given up after six. Its time grows by n anyway.
LONG_STAR_RANKS = 256


@dataclasses.dataclass(frozen=True)
class Check:
    algorithm: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Scale:
    algorithm: str
    bytes: int


def setting_of(ranks):
    return Setting(f"{ranks} hosts", ranks, 1, CHECK_RATE, CHECK_BURST, CHECK_CONGESTION_CONTROL)


def on_hosts(folder, ranks, case, seconds):
    options = ("--algorithm", case.algorithm, "--memory", "heap")
    return network.paceline(*options)(folder, ranks, Sum(setting_of(ranks), case.bytes), seconds)


@functools.cache
def latency_us(folder):
    """Half of the time in which a message of four bytes goes to another host and the answer comes back, all software
    in between included: a broadcast and its acknowledgement are a tree of two ranks."""
    tiny = Sum(setting_of(2), 4)
    points = [network.paceline("--algorithm", "tree", "--memory", "heap")(folder, 2, tiny, 0.2) for _ in range(3)]
    return statistics.median(point["median_us"] for point in points) / 2


ANSWERS = pathlib.Path(__file__).resolve().parent.parent / "build" / "scale"
CORES = queue.SimpleQueue()
for number in os.sched_getaffinity(0):
    CORES.put(number)


@contextlib.contextmanager
def own_core():
    """A core that nobody else has. Of the simulated ranks one runs at a time: on one core they take turns at half the price."""
    taken = CORES.get()
    try:
        yield taken
    finally:
        CORES.put(taken)


@functools.cache
def fingerprint(program):
    return hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()


def simulated(folder, ranks, algorithm, size, rate, latency, operations):
    """The same question to the same program has the same answer: it is asked once, and a run that was broken off goes on
    with the answers that it had."""
    program = f"{folder}/bench_scale"
    question = ["--ranks", str(ranks), "--algorithm", algorithm, "--bytes", str(size)]
    question += ["--rate", str(rate * TCP), "--latency", str(latency), "--operations", str(operations)]
    key = hashlib.sha256(" ".join([fingerprint(program), *question]).encode()).hexdigest()[:24]
    kept = ANSWERS / f"{key}.json"
    if not kept.exists():
        with own_core() as core:
            answer = contest.run(["taskset", "--cpu-list", str(core), program, *question], timeout=3600)[-1]
        ANSWERS.mkdir(parents=True, exist_ok=True)
        beside = kept.with_suffix(".new")
        beside.write_text(json.dumps(answer), encoding="utf-8")
        beside.rename(kept)
    return json.loads(kept.read_text(encoding="utf-8"))


def check_in_sim(folder, ranks, case, seconds):
    args = (case.algorithm, case.bytes, CHECK_BYTES_PER_S, latency_us(folder), CHECK_OPERATIONS)
    return simulated(folder, ranks, *args)


def scale_in_sim(folder, ranks, case, seconds):
    most = RANKS[-1] if seconds > SECONDS["quick"] else QUICK_RANKS
    return all_scales(folder, most).get((ranks, case))


def is_long_star(ranks, case):
    return case.algorithm == "star" and case.bytes > MIB and ranks > LONG_STAR_RANKS


@functools.cache
def all_scales(folder, most):
    """Their time is virtual, so that as many run side by side as there are cores, the longest first."""
    asked = ((n, case) for n, case in itertools.product(RANKS, SCALES) if n <= most and not is_long_star(n, case))
    questions = sorted(asked, key=lambda question: -question[0])

    def answer(question):
        ranks, case = question
        return simulated(folder, ranks, case.algorithm, case.bytes, GIGABIT, LATENCY_US, 1)

    with concurrent.futures.ThreadPoolExecutor(CORES.qsize()) as pool:
        return dict(zip(questions, pool.map(answer, questions)))


CHECKS = [Check(algorithm, size) for size in CHECK_SIZES for algorithm in ALGORITHMS]
SCALES = [Scale(algorithm, size) for size in SIZES for algorithm in ALGORITHMS]

CONTESTANTS = [
    *(Contestant(name, ranks, CHECKS, measure) for ranks in CHECK_RANKS for name, measure in (("hosts", on_hosts), ("sim", check_in_sim))),
    *(Contestant("scale", ranks, SCALES, scale_in_sim) for ranks in RANKS),
]


@contextlib.contextmanager
def prepared():
    with network.prepared():
        yield


def median_us(results, name, ranks, case):
    found = report.medians(results, (name, ranks), case, ("median_us",))
    return found["median_us"] if found else None


def comparison(results):
    """One dictionary per check."""
    for ranks in CHECK_RANKS:
        for case in CHECKS:
            real, sim = (median_us(results, name, ranks, case) for name in ("hosts", "sim"))
            ratio = sim / real if real and sim else None
            yield {"ranks": ranks, **dataclasses.asdict(case), "hosts_us": real, "sim_us": sim, "sim_over_hosts": ratio}


def milliseconds(us):
    return "–" if us is None else report.digits(us / 1e3)


def verdict(ratio):
    if ratio is None:
        return "not measured"
    return "ok" if abs(ratio - 1) <= WITHIN else "OFF"


def check_table(results):
    rows = [["hosts", "size", "algorithm", "real, ms", "sim, ms", "sim / real", f"within {WITHIN:.0%}"]]
    for point in comparison(results):
        ratio = point["sim_over_hosts"]
        shown = "–" if ratio is None else f"{ratio:.2f}"
        rows.append([str(point["ranks"]), report.human_size(point["bytes"]), point["algorithm"]])
        rows[-1] += [milliseconds(point["hosts_us"]), milliseconds(point["sim_us"]), shown, verdict(ratio)]
    return rows


def times(results, size):
    """{algorithm: {ranks: ms}}, without what was not measured."""
    found = {name: {ranks: median_us(results, "scale", ranks, Scale(name, size)) for ranks in RANKS} for name in ALGORITHMS}
    return {name: {ranks: us / 1e3 for ranks, us in line.items() if us} for name, line in found.items()}


def scale_table(results, size):
    found = times(results, size)
    rows = [["hosts", *ALGORITHMS, "shrunk by"]]
    for ranks in RANKS:
        cells = [report.digits(found[name][ranks]) if ranks in found[name] else "–" for name in ALGORITHMS]
        rows.append([str(ranks), *cells, shrink_of(results, ranks, size)])
    return rows


def shrink_of(results, ranks, size):
    found = report.medians(results, ("scale", ranks), Scale(ALGORITHMS[0], size), ("shrink",))
    return f"{found['shrink']:g}" if found else "–"


def tables(results):
    check = f"The simulation beside real sockets: allreduce between network namespaces at {CHECK_RATE}/s"
    scales = [
        (f"allreduce of {report.human_size(size)} at 1 Gbit/s and {LATENCY_US} µs, simulated, ms", scale_table(results, size))
        for size in SIZES
    ]
    return [(check, check_table(results)), *scales]


def json_points(results):
    every = [
        {"ranks": ranks, **dataclasses.asdict(case), **point}
        for (name, ranks), points in results[0].items()
        for case, point in points.items()
        if name == "scale"
    ]
    return [*({"section": "check", **point} for point in comparison(results)), *({"section": "scale", **point} for point in every)]


def picture(results):
    panels = [(f"{report.human_size(size)} per host", times(results, size)) for size in SIZES]
    return scale_picture.draw(panels, RANKS, f"Time of one allreduce, simulated: ports of 1 Gbit/s, {LATENCY_US} µs")
