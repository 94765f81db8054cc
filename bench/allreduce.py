"""Who takes part in `script/bench allreduce`, at which sizes, and what must be reached."""

import os

import contest
import report
from contest import Contestant
from report import Figure, Section

KIB, MIB = 1 << 10, 1 << 20
CORES = len(os.sched_getaffinity(0))
ALL = [1 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
LARGE = [size for size in ALL if size >= 512 * KIB]
CROWDED = [size for size in LARGE if size <= 64 * MIB]
HANDLE = [1 * MIB] + [size for size in LARGE if size > 1 * MIB]


def paceline(*options):
    return lambda folder, ranks, size: [[f"{folder}/paceline", "bench", "allreduce", "--json", *options]]


def limit(folder, ranks, size):
    kinds = ["cached"] if size < 16 * MIB else ["cached", "streaming"]
    return [[f"{folder}/bench_limit", "--algorithm", kind] for kind in kinds]


def gloo(folder, ranks, size):
    return [[f"{folder}/bench_gloo", "--algorithm", algorithm] for algorithm in ("ring", "bcube")]


def mpich(folder, ranks, size):
    return [["mpirun.mpich", "-n", str(ranks), f"{folder}/bench_mpich"]]


def mpirun(folder, ranks, *settings):
    crowded = ["--oversubscribe"] if ranks > CORES else []
    command = ["mpirun.openmpi", "--allow-run-as-root", *crowded, "-n", str(ranks), *settings]
    return command + [f"{folder}/bench_openmpi"]


def openmpi(folder, ranks, size):
    return [mpirun(folder, ranks)]


def mca(**values):
    return [word for key, value in values.items() for word in ("--mca", key, str(value))]


# What won where, of everything listed in bench/README.md.
COLL_SM = mca(coll_sm_priority=100)
COPY_TWICE = mca(btl_vader_single_copy_mechanism="none")
LARGER_PIECES = mca(btl_vader_eager_limit=32 * KIB, btl_vader_max_send_size=64 * KIB)


def segmented_ring(segment):
    return mca(
        coll_tuned_use_dynamic_rules=1,
        coll_tuned_allreduce_algorithm=5,
        coll_tuned_allreduce_algorithm_segmentsize=segment,
    )


def openmpi_best(folder, ranks, size):
    """Two candidates for large messages, because neither won every time."""
    ring = COPY_TWICE + segmented_ring(1 * MIB if ranks == 2 else 256 * KIB)
    if size <= 1 * KIB:
        candidates = [COLL_SM]
    elif size <= 4 * MIB:
        candidates = [COPY_TWICE + LARGER_PIECES]
    else:
        candidates = [ring, ["--bind-to", "none"]]
    return [mpirun(folder, ranks, *settings) for settings in candidates]


def best_of(commands):
    """Of several commands the quickest counts: a peer shows its best."""

    def measure(folder, ranks, size, seconds):
        options = ["--ranks", str(ranks), "--bytes", str(size), "--seconds", str(seconds)]
        points = []
        for command in commands(folder, ranks, size):
            contest.check_programs(word for word in command if word.startswith("/"))  # what a launcher is to launch
            points += contest.run(command + options, timeout=60 + 20 * seconds)
        return min(points, key=lambda point: point["median_us"], default=None)

    return measure


PEERS = {"Open MPI": openmpi, "Open MPI best": openmpi_best, "MPICH": mpich, "Gloo": gloo, "limit": limit}

CONTESTANTS = [
    Contestant("paceline", 2, sorted(ALL + HANDLE[:1]), best_of(paceline("--memory", "arena"))),
    *(Contestant(name, 2, ALL, best_of(commands)) for name, commands in PEERS.items()),
    Contestant("paceline heap", 2, LARGE, best_of(paceline("--memory", "heap"))),
    Contestant("paceline handle", 2, HANDLE, best_of(paceline("--memory", "arena", "--handle"))),
    Contestant("paceline", 4, CROWDED, best_of(paceline("--memory", "arena"))),
    *(Contestant(name, 4, CROWDED, best_of(commands)) for name, commands in PEERS.items()),
]


def arena_bars(size):
    if size >= 4 * MIB:
        return {"Open MPI": 3, "Gloo": 10, "limit": 0.8}
    if size >= 512 * KIB:
        return {"Open MPI": 2.5, "Gloo": 10, "limit": 0.8}
    return {"Open MPI": 1, "Gloo": 20}


def speed(point, size):
    """Small messages are about latency, large ones about bandwidth."""
    if size < 512 * KIB:
        return f"{report.digits(point['median_us'])} µs"
    return f"{report.digits(size / point['median_us'] / 1e3)} GB/s"


TIME = Figure(
    "median_us",
    more_is_better=False,
    show=speed,
    heading="size",
    label=report.human_size,
    describe=lambda size: {"bytes": size},
    also=("mad_us", "p99_us", "gbps"),
)

SECTIONS = [
    Section("2 ranks, arena", TIME, "paceline", 2, ALL, list(PEERS), arena_bars),
    Section("2 ranks, ordinary heap memory", TIME, "paceline heap", 2, LARGE, list(PEERS), lambda _: {"Open MPI": 1.5, "Gloo": 5}),
    Section(f"4 ranks on {CORES} cores, arena", TIME, "paceline", 4, CROWDED, list(PEERS), lambda _: {"Open MPI": 2, "Gloo": 5}),
    Section("2 ranks, arena, handle form", TIME, "paceline handle", 2, HANDLE, ["paceline"], lambda _: {"paceline": 0.9}),
]

SECONDS = {"usual": 0.5, "quick": 0.1}


def tables(results):
    return report.tables(SECTIONS, results)


def json_points(results):
    return report.section_points(SECTIONS, results)
