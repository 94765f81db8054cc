"""`script/bench server`: how quick are the tables of a parameter server on one host, beside memcpy and allreduce?"""

import dataclasses

import contest
import report
from contest import Contestant

SECONDS = {"usual": 2, "quick": 0.5}
MILLION = 1_000_000


@dataclasses.dataclass(frozen=True)
class Sparse:
    question: str  # how keys are drawn
    rows: int
    keys: int
    width: int = 1
    least: float | None = None  # million keys per second
    of_memcpy: float | None = None  # least share of its bandwidth

    def options(self):
        return ["--question", self.question, "--rows", str(self.rows), "--keys", str(self.keys), "--width", str(self.width)]


@dataclasses.dataclass(frozen=True)
class Dense:
    floats: int
    most: float | None = None  # times the allreduce

    def options(self):
        return ["--question", "dense", "--rows", str(self.floats)]


SPARSE = [
    Sparse("uniform", 10 * MILLION, 100_000, least=15),
    Sparse("repeated", 10 * MILLION, 100_000, least=30),
    Sparse("zipf", 10 * MILLION, 100_000),
    Sparse("uniform", 10 * MILLION, 10_000),
    Sparse("repeated", 10 * MILLION, 10_000),
    Sparse("uniform", 10 * MILLION, 1_000),
    Sparse("repeated", 10 * MILLION, 1_000),
    Sparse("uniform", MILLION, 100_000),
    Sparse("zipf", MILLION, 100_000),
]
WIDE = [
    Sparse("uniform", MILLION, 100_000, width=64, of_memcpy=0.3),
    Sparse("repeated", MILLION, 100_000, width=64),
    Sparse("uniform", MILLION, 1_000, width=64),
]
DENSE = [Dense(10 * MILLION, most=2.5), Dense(MILLION), Dense(100_000)]


def measure(folder, ranks, case, seconds):
    command = [f"{folder}/paceline", "run", "-n", str(ranks), "--no-prefix", f"{folder}/bench_server_tables"]
    return contest.run([*command, *case.options(), "--seconds", str(seconds)], timeout=300)[-1]


CONTESTANTS = [Contestant("tables", 2, [*SPARSE, *WIDE, *DENSE], measure)]


def found(results, case, *names):
    return report.medians(results, ("tables", 2), case, names)


def verdict(value, least=None, most=None):
    if least is None and most is None:
        return ""
    if value is None:
        return "not measured"
    return "ok" if (least is None or value >= least) and (most is None or value <= most) else "SHORT"


def name_of(case):
    return [case.question, f"{case.rows:,}", f"{case.keys:,}"]


def sparse_table(results):
    rows = [["keys are", "rows", "keys", "million keys/s", "µs", "bar", "reached"]]
    for case in SPARSE:
        point = found(results, case, "million_keys_per_s", "seconds")
        rate = point and point["million_keys_per_s"]
        cells = [report.digits(rate), report.digits(1e6 * point["seconds"])] if point else ["–", "–"]
        bar = f"≥ {case.least:g}" if case.least else ""
        rows.append([*name_of(case), *cells, bar, verdict(rate, least=case.least)])
    return rows


def wide_table(results):
    rows = [["keys are", "rows", "keys", "GB/s", "memcpy GB/s", "share", "bar", "reached"]]
    for case in WIDE:
        point = found(results, case, "gbps", "memcpy_gbps")
        share = point and point["gbps"] / point["memcpy_gbps"]
        cells = [f"{point['gbps']:.2f}", f"{point['memcpy_gbps']:.2f}", f"{share:.2f}"] if point else ["–", "–", "–"]
        bar = f"≥ {case.of_memcpy:g}" if case.of_memcpy else ""
        rows.append([*name_of(case), *cells, bar, verdict(share, least=case.of_memcpy)])
    return rows


def dense_table(results):
    rows = [["floats", "push and pull, ms", "allreduce, ms", "× allreduce", "bar", "reached"]]
    for case in DENSE:
        point = found(results, case, "server_ms", "allreduce_ms", "times_allreduce")
        times = point and point["times_allreduce"]
        cells = [report.digits(point[name]) for name in ("server_ms", "allreduce_ms", "times_allreduce")] if point else ["–"] * 3
        bar = f"≤ {case.most:g}" if case.most else ""
        rows.append([f"{case.floats:,}", *cells, bar, verdict(times, most=case.most)])
    return rows


def tables(results):
    return [
        ("sparse tables of width 1, one worker and one server", sparse_table(results)),
        ("sparse tables of width 64, one worker and one server", wide_table(results)),
        ("a dense table, two workers that hold one server each, beside their allreduce", dense_table(results)),
    ]


def json_points(results):
    return [
        {"section": type(case).__name__.lower(), "round": number, "ranks": ranks, **dataclasses.asdict(case), **point}
        for number, found_points in enumerate(results)
        for (_, ranks), points in found_points.items()
        for case, point in points.items()
    ]
