"""How much memory workers take while they train, from /proc/PID/smaps_rollup."""

import pathlib
import statistics
import time

import contest
from report import digits

WORKER = "paceline-train"  # the name of a worker process
PERIOD = 0.1  # seconds between two looks
# Of the looks, in the order of time: before, data are loaded; after, the model is evaluated and saved.
WHILE_TRAINING = (0.4, 0.8)
BAR = 0.1  # of parameters, gradients and optimizer state
# Pss shares each page out among the processes that map it. Two workers share LibTorch's code, one alone carries it by
# itself; without the pages of files that saving does not hide what the second worker costs.
KINDS = {"pss": "Pss", "pss_without_files": "Pss without files (libraries)"}


def proportional_set(pid):
    """Bytes by kind, or None if the process is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return None
    kib = {words[0].rstrip(":"): int(words[1]) for words in map(str.split, lines)}
    return {"pss": kib["Pss"] << 10, "pss_without_files": (kib["Pss"] - kib["Pss_File"]) << 10}


def workers(session):
    for pid in contest.members(session):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == WORKER:
                yield pid
        except (FileNotFoundError, ProcessLookupError):
            continue


def watch(process, ranks, timeout):
    """A worker's share while it trains. Returns when the process has ended, or at the timeout."""
    looks = []
    deadline = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < deadline:
        found = [use for pid in workers(process.pid) if (use := proportional_set(pid))]
        if len(found) == ranks:
            looks.append({kind: sum(use[kind] for use in found) / ranks for kind in KINDS})
        time.sleep(PERIOD)
    first, last = (int(share * len(looks)) for share in WHILE_TRAINING)
    training = looks[first : last + 1]
    return {kind: statistics.median(look[kind] for look in training) for kind in KINDS} if training else None


def overheads(results, case, state):
    """By kind what a worker of two takes, what one alone takes, and the difference as a share of `state` bytes; each
    the median over the rounds."""
    rounds = [(found[("memory", 2)].get(case), found[("memory", 1)].get(case)) for found in results]
    rounds = [(of_two, alone) for of_two, alone in rounds if of_two and alone]
    if not rounds:
        return {}
    return {
        kind: {
            "of_two": statistics.median(of_two[kind] for of_two, _ in rounds),
            "alone": statistics.median(alone[kind] for _, alone in rounds),
            "state": state,
            "extra": statistics.median((of_two[kind] - alone[kind]) / state for of_two, alone in rounds),
        }
        for kind in KINDS
    }


def mib(size):
    return f"{digits(size / (1 << 20))} MiB"


def table(found):
    rows = [["", "of two", "alone", "parameters, gradients, state", "extra / these", "bar", "reached"]]
    for kind, label in KINDS.items():
        if kind not in found:
            rows.append([label, "–", "–", "–", "–", f"≤ {BAR:g}", "not measured"])
            continue
        use = found[kind]
        sizes = [mib(use[name]) for name in ("of_two", "alone", "state")]
        reached = "ok" if use["extra"] <= BAR else "SHORT"
        rows.append([label, *sizes, f"{use['extra']:.3f}", f"≤ {BAR:g}", reached])
    return rows
