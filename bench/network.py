"""Who takes part in `script/bench network`, between which hosts, and what must be reached. The hosts are network
namespaces of this machine (lan.py), whose cores they share."""

import contextlib
import dataclasses
import functools
import json
import secrets
import tempfile

import contest
import lan
import report
import train
from allreduce import mca, segmented_ring
from contest import Contestant, Skipped
from report import Figure, Section

KIB, MIB = 1 << 10, 1 << 20
GIGABIT = 125e6  # bytes/s
SECONDS = {"usual": 1, "quick": 0.2}


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    hosts: int
    ranks_per_host: int
    rate: str | None
    burst: str = lan.BURST
    congestion_control: str | None = None

    @property
    def ranks(self):
        return self.hosts * self.ranks_per_host

    def host_of(self, rank):
        return rank // self.ranks_per_host


SLOW = Setting("4 hosts, 1 rank each, 1 Gbit/s", 4, 1, "1gbit")
PAIRS = Setting("2 hosts, 2 ranks each, 1 Gbit/s", 2, 2, "1gbit")
QUICK = Setting("2 hosts, 1 rank each, links as quick as the machine", 2, 1, None)


@dataclasses.dataclass(frozen=True)
class Sum:
    """One allreduce of so many bytes, or of each of so many parts of them."""

    setting: Setting
    bytes: int
    tensors: int = 1


@dataclasses.dataclass(frozen=True)
class Training:
    setting: Setting
    workload: train.Workload


SLOW_SUMS = [Sum(SLOW, 16 * MIB), Sum(SLOW, 64 * MIB)]
PAIR_SUMS = [Sum(PAIRS, 16 * MIB), Sum(PAIRS, 64 * MIB)]
QUICK_SUMS = [Sum(QUICK, size * MIB) for size in (1, 4, 16, 64)]
SMALL = Sum(SLOW, 200 * 10_000, tensors=200)
SMALL_QUICK = dataclasses.replace(SMALL, setting=QUICK)
TRAINING = Training(SLOW, train.MLP)
TRAINING_STEPS = 30

networks = contextlib.ExitStack()


@functools.cache
def network_of(setting):
    """Made when first asked for, removed by prepared()."""
    return networks.enter_context(lan.hosts(setting.hosts, setting.rate, setting.burst, setting.congestion_control))


@contextlib.contextmanager
def prepared():
    lan.demand_root()
    with networks:
        yield
    network_of.cache_clear()


def timeout(seconds):
    return 90 + 20 * seconds


def run_on_hosts(setting, command_of, environment_of, seconds):
    """One process per rank; the lines that rank 0 printed."""
    network = network_of(setting)
    with contextlib.ExitStack() as stack:
        processes = []
        for rank in range(setting.ranks):
            command = command_of(rank)
            contest.check_programs(command[:1])
            on_host = network.command(setting.host_of(rank), command)
            processes.append(stack.enter_context(contest.started(on_host, environment_of(rank))))
        found = [contest.points_of(process, timeout(seconds)) for process in processes]
    return found[0]


def options_of(case, seconds):
    return ["--ranks", str(case.setting.ranks), "--bytes", str(case.bytes), "--seconds", str(seconds)]


def quickest(points):
    return min(points, key=lambda point: point["median_us"], default=None)


# ---- paceline


def worker_environment(setting):
    """As a launcher would set it; each run has a port and a secret of its own."""
    store = f"{network_of(setting).address(0)}:{20000 + secrets.randbelow(10000)}"
    job = {"PACELINE_SIZE": str(setting.ranks), "PACELINE_STORE": store, "PACELINE_SECRET": secrets.token_hex(16)}
    return lambda rank: {**job, "PACELINE_RANK": str(rank)}


def paceline(*options):
    def measure(folder, ranks, case, seconds):
        command = [f"{folder}/paceline", "bench", "allreduce", "--json", "--tensors", str(case.tensors), *options]
        command += ["--bytes", str(case.bytes), "--seconds", str(seconds)]
        return quickest(run_on_hosts(case.setting, lambda _: command, worker_environment(case.setting), seconds))

    return measure


def paceline_fused(folder, ranks, case, seconds):
    return paceline()(folder, ranks, dataclasses.replace(case, tensors=1), seconds)


def config_of(case, out):
    """What `paceline train` would write; the rest is left to its defaults."""
    return {
        **{"model": case.workload.model, "data": train.DATA, "workers": case.setting.ranks, "threads": 1},
        **{"batch": case.workload.batch, "epochs": 1, "steps": TRAINING_STEPS, "optimizer": "sgd", "lr": 0.01},
        **{"out": out, "keep": 1, "json": True},
    }


def paceline_train(folder, ranks, case, seconds):
    given = worker_environment(case.setting)
    more = {**train.ONE_THREAD, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as out:
        command = [f"{folder}/paceline-train", json.dumps(config_of(case, out))]
        lines = run_on_hosts(case.setting, lambda _: command, lambda rank: {**given(rank), **more}, seconds)
    final = [line for line in lines if line.get("final")]
    if not final:
        raise Skipped('it printed no line with "final": true')
    return {"samples_per_s": final[-1]["samples_per_s"]}


# ---- peers


def line(folder, ranks, case, seconds):
    """What the links allow: every host's share of the sum has to come and go, 2(h-1)/h of the bytes in each direction,
    at the nominal rate. Headers of Ethernet, IP and TCP take 4.4% of that, so that nobody can reach 1."""
    hosts = case.setting.hosts
    return {"median_us": 2 * (hosts - 1) / hosts * case.bytes / GIGABIT * 1e6}


def gloo(*algorithms):
    def measure(folder, ranks, case, seconds):
        network, setting = network_of(case.setting), case.setting
        places = [setting.host_of(rank) for rank in range(setting.ranks)]
        hosts = ",".join(f"{network.namespace(host)}={network.address(host)}" for host in places)
        command = [f"{folder}/bench_gloo", "--hosts", hosts, *options_of(case, seconds)]
        points = [contest.run([*command, "--algorithm", name], timeout(seconds)) for name in algorithms]
        return quickest(sum(points, []))

    return measure


def openmpi(*settings):
    """Each of `settings` in turn; the quickest counts."""

    def measure(folder, ranks, case, seconds):
        network, setting = network_of(case.setting), case.setting
        contest.check_programs(["mpirun.openmpi", f"{folder}/bench_openmpi"])
        hosts = ",".join(f"{network.address(host)}:{setting.ranks_per_host}" for host in range(setting.hosts))
        command = ["mpirun.openmpi", "--allow-run-as-root", "--host", hosts, "-n", str(setting.ranks), "--bind-to", "none"]
        command += mca(plm_rsh_agent=network.remote_shell, orte_leave_session_attached=1, pml="ob1", btl="tcp,vader,self")
        command += mca(btl_tcp_if_include=lan.SUBNET, oob_tcp_if_include=lan.SUBNET)
        program = [f"{folder}/bench_openmpi", *options_of(case, seconds)]
        commands = [network.command(0, [*command, *words, *program]) for words in settings]
        return quickest(sum((contest.run(each, timeout(seconds)) for each in commands), []))

    return measure


def ddp(*options):
    def measure(folder, ranks, case, seconds):
        setting = case.setting
        meeting = f"{network_of(setting).address(0)}:{20000 + secrets.randbelow(10000)}"
        command = [train.PYTHON, train.DDP, *case.workload.options(TRAINING_STEPS), *options]
        command += ["--workers", str(setting.ranks), "--master", meeting]
        environment = {**train.ONE_THREAD, "GLOO_SOCKET_IFNAME": lan.DEVICE}
        found = run_on_hosts(setting, lambda rank: [*command, "--rank", str(rank)], lambda _: environment, seconds)
        return {"samples_per_s": found[-1]["samples_per_s"]}

    return measure


# All hosts share the cores of this machine, where a rank that spins takes time from those it waits for.
YIELDING = mca(mpi_yield_when_idle=1)
LARGER_BUFFERS = mca(btl_tcp_sndbuf=0, btl_tcp_rcvbuf=0)  # as large as the kernel makes them
OPEN_MPI = openmpi([], YIELDING, YIELDING + LARGER_BUFFERS + segmented_ring(1 * MIB))
GLOO = gloo("ring", "bcube", "halving-doubling", "ring-chunked")

CONTESTANTS = [
    Contestant("paceline", 4, SLOW_SUMS + PAIR_SUMS, paceline()),
    Contestant("line", 4, SLOW_SUMS + PAIR_SUMS, line),
    Contestant("Open MPI", 4, SLOW_SUMS + PAIR_SUMS, OPEN_MPI),
    Contestant("Gloo", 4, SLOW_SUMS, GLOO),
    Contestant("Gloo ring", 4, PAIR_SUMS, gloo("ring")),
    Contestant("paceline", 2, QUICK_SUMS, paceline()),
    Contestant("Open MPI", 2, QUICK_SUMS, OPEN_MPI),
    Contestant("Gloo", 2, QUICK_SUMS, GLOO),
    Contestant("paceline train", 4, [TRAINING], paceline_train),
    Contestant("ddp", 4, [TRAINING], ddp()),
    Contestant("ddp tuned", 4, [TRAINING], ddp("--tuned")),
    Contestant("fused", 4, [SMALL], paceline_fused),
    Contestant("one by one", 4, [SMALL], paceline()),
    Contestant("started together", 4, [SMALL], paceline("--handle")),
    Contestant("fused", 2, [SMALL_QUICK], paceline_fused),
    Contestant("one by one", 2, [SMALL_QUICK], paceline()),
    Contestant("started together", 2, [SMALL_QUICK], paceline("--handle")),
]


def milliseconds(point, _):
    return f"{report.digits(point['median_us'] / 1e3)} ms"


TIME = Figure(
    "median_us",
    more_is_better=False,
    show=milliseconds,
    heading="size",
    label=lambda case: report.human_size(case.bytes),
    describe=lambda case: {"hosts": case.setting.hosts, "rate": case.setting.rate, "bytes": case.bytes, "tensors": case.tensors},
    also=("mad_us", "p99_us", "gbps"),
)

MANY = dataclasses.replace(
    TIME, heading="tensors", label=lambda case: f"{case.tensors} of {case.bytes // case.tensors / 1000:g} KB"
)

SPEED = dataclasses.replace(
    train.SPEED,
    label=lambda case: train.SPEED.label(case.workload),
    describe=lambda case: {"hosts": case.setting.hosts, "rate": case.setting.rate, **train.SPEED.describe(case.workload)},
)

SECTIONS = [
    Section(
        f"{SLOW.name}; × line is the bus bandwidth as a share of the link",
        TIME,
        "paceline",
        4,
        SLOW_SUMS,
        ["Open MPI", "Gloo", "line"],
        lambda _: {"line": 0.93, "Open MPI": 1, "Gloo": 1},
    ),
    Section(
        PAIRS.name,
        TIME,
        "paceline",
        4,
        PAIR_SUMS,
        ["Gloo ring", "Open MPI", "line"],
        lambda _: {"Gloo ring": 1.3},
    ),
    Section(
        QUICK.name,
        TIME,
        "paceline",
        2,
        QUICK_SUMS,
        ["Open MPI", "Gloo"],
        lambda _: {"Open MPI": 1, "Gloo": 1.5},
    ),
    Section(
        f"training, {SLOW.name}, samples/s",
        SPEED,
        "paceline train",
        4,
        [TRAINING],
        ["ddp", "ddp tuned"],
        lambda _: {"ddp": 1},
    ),
    *(
        Section(
            f"many small tensors, {case.setting.name}",
            MANY,
            "fused",
            case.setting.ranks,
            [case],
            ["one by one", "started together"],
            lambda _: {"one by one": 5},
        )
        for case in (SMALL, SMALL_QUICK)
    ),
]


def tables(results):
    return report.tables(SECTIONS, results)


def json_points(results):
    return report.section_points(SECTIONS, results)
