"""`script/bench routes`: a step of training by where updates travel, between 2 to 8 hosts with slow and quick links, beside
what the busiest link alone would take. The hosts are network namespaces of this machine (lan.py), whose cores they share."""

import dataclasses
import json
import statistics
import tempfile

import contest
import report
import train
from contest import Contestant, Skipped
from network import Setting, prepared, run_on_hosts, worker_environment  # noqa: F401 (prepared: by script/bench)

MODEL, BATCH = "mlp:512x2", 8
FLOATS = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
STEPS = 12  # of which the first five are not timed
SECONDS = {"usual": STEPS, "quick": 8}  # what --seconds stands for is the number of steps
ROUNDS = 3
RATES = {"200mbit": 25e6, "1gbit": 125e6}  # bytes/s

SETTINGS = [
    Setting(f"{hosts} hosts, {ranks} rank{'s' if ranks > 1 else ''} each, {rate}", hosts, ranks, rate)
    for rate in RATES
    for hosts, ranks in ((2, 1), (4, 1), (8, 1), (2, 2), (4, 2))
]
PLANS = {
    "server:1": "where=server:1 when=bsp",
    "server:n": "where=server:{workers} when=bsp",
    "ring": "where=ring when=bsp",
    "hierarchical": "where=hierarchical when=bsp",
    "gossip": "where=gossip:ring when=bsp",
}
LECTURE = "ring"  # is to be about twice as quick as one server, at least
BAR = 2.0


@dataclasses.dataclass(frozen=True)
class Case:
    setting: Setting


def config_of(plan, setting, steps, out):
    return {
        **{"model": MODEL, "data": train.DATA, "workers": setting.ranks, "threads": 1, "batch": BATCH, "epochs": 1},
        **{"steps": steps, "optimizer": "sgd", "lr": 0.01, "out": out, "keep": 1, "json": True},
        "plan": PLANS[plan].format(workers=setting.ranks),
    }


def measure(plan):
    def run(folder, ranks, case, steps):
        given, more = worker_environment(case.setting), train.ONE_THREAD
        with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
            command = [f"{folder}/paceline-train", json.dumps(config_of(plan, case.setting, int(steps), f"{out}/run"))]
            lines = run_on_hosts(case.setting, lambda _: command, lambda rank: {**given(rank), **more}, 10 * steps)
        final = [line for line in lines if line.get("final")]
        if not final:
            raise Skipped('it printed no line with "final": true')
        return {"step_ms": 1e3 * BATCH * case.setting.ranks / final[-1]["samples_per_s"]}

    return run


CONTESTANTS = [
    Contestant(plan, ranks, [Case(setting) for setting in SETTINGS if setting.ranks == ranks], measure(plan))
    for ranks in sorted({setting.ranks for setting in SETTINGS})
    for plan in PLANS
]


def busiest_link_ms(plan, setting):
    """How long the link that carries most is busy, in the direction that carries most. Servers are threads of the workers of
    the first hosts; a worker's values do not leave its own host. All have to be there before the new ones are sent, so
    that what comes and what goes is added up."""
    size, hosts, ranks = 4 * FLOATS, setting.hosts, setting.ranks
    away = ranks - setting.ranks_per_host
    moved = {
        "server:1": 2 * away * size,
        "server:n": 2 * away * size * setting.ranks_per_host / ranks,
        "ring": 2 * (ranks - 1) / ranks * size,
        "hierarchical": 2 * (hosts - 1) / hosts * size,
        "gossip": (2 if hosts > 2 else 1) * size,  # to both neighbours, or to the only one
    }[plan]
    return 1e3 * moved / RATES[setting.rate]


def sooner(results, setting):
    """The server's time over the ring's, in each round that has both."""
    found = []
    for round_ in results:
        one, ring = (round_.get((plan, setting.ranks), {}).get(Case(setting)) for plan in ("server:1", LECTURE))
        if one and ring:
            found.append(one["step_ms"] / ring["step_ms"])
    return found


def cell(results, plan, setting):
    found = report.medians(results, (plan, setting.ranks), Case(setting), ("step_ms",))
    link = report.digits(busiest_link_ms(plan, setting))
    return f"{report.digits(found['step_ms'])} ({link})" if found else f"– ({link})"


def row(results, setting):
    ratios = sooner(results, setting)
    measured = statistics.median(ratios) if ratios else None
    by_link = busiest_link_ms("server:1", setting) / busiest_link_ms(LECTURE, setting)
    verdict = "not measured" if measured is None else "ok" if measured >= BAR * 0.9 else "SHORT"
    shown = "–" if measured is None else report.digits(measured)
    return [setting.name, *(cell(results, plan, setting) for plan in PLANS), shown, report.digits(by_link), verdict]


def tables(results):
    head = ["hosts and links", *PLANS, "server:1 / ring", "by the links", f"about {BAR:g} or more"]
    title = f"ms per step of {MODEL} ({FLOATS:,} parameters), {BATCH} examples a worker; in brackets what the busiest link alone takes"
    return [(title, [head, *(row(results, setting) for setting in SETTINGS)])]


def json_points(results):
    return [
        {"plan": plan, **dataclasses.asdict(case.setting), "link_ms": busiest_link_ms(plan, case.setting), **point}
        for round_ in results
        for (plan, _), points in round_.items()
        for case, point in points.items()
    ]
