"""Runs contestants in turn and collects what they found: one point per case."""

import contextlib
import dataclasses
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    ranks: int
    cases: list  # what it is measured at: a size in bytes, say
    # (folder of programs, ranks, case, seconds) -> the point, a dictionary of figures, or None where there is none
    measure: Callable[[pathlib.Path, int, Any, float], dict | None]

    @property
    def key(self):
        return (self.name, self.ranks)


class Skipped(Exception):
    """A contestant that cannot take part, with the reason."""


def members(session):
    """Every living process of a session. Process groups would not do: mpirun gives each rank its own."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = entry.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and state != "Z":
            yield int(entry.parent.name)


def stop(process):
    """Asks first, because mpirun cleans up its folders when asked; after two seconds nothing is left either way. A
    second Ctrl-C waits until this is done."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    deadline = time.monotonic() + 2
    while pids := list(members(process.pid)):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)
    process.wait()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


@contextlib.contextmanager
def started(command, environment=None, stdin=subprocess.DEVNULL):
    """A running command. Whatever ends the block, the command's processes end too."""
    check_programs(command[:1])
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process
    finally:
        stop(process)


def check_programs(words):
    for word in words:
        if shutil.which(word) is None:
            raise Skipped(f"{word} is not there")


def points_of(process, timeout):
    """Waits for the end; the JSON lines that were printed."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Skipped(f"no result within {timeout:.0f} s") from None
    if process.returncode != 0:
        said = [line for line in (errors + output).splitlines() if line.strip(" -")]
        raise Skipped(f"exit code {process.returncode}: {said[0] if said else 'no message'}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def run(command, timeout, environment=None):
    with started(command, environment) as process:
        return points_of(process, timeout)


def run_together(commands, timeout, environment=None):
    """The points of each, of commands that say when they are ready and then wait for a line on stdin, so that all start
    what they are timed for at once."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(command, environment, subprocess.PIPE)) for command in commands]
        for process in processes:
            wait_until_ready(process, timeout)
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return [points_of(process, timeout) for process in processes]


def wait_until_ready(process, timeout):
    """Its first line says so. One that ends instead leaves its reason to points_of."""
    readable, _, _ = select.select([process.stdout], [], [], timeout)
    if not readable:
        raise Skipped(f"not ready within {timeout:.0f} s")
    if process.stdout.readline().strip() != "ready":
        points_of(process, timeout)
        raise Skipped("it did not say that it is ready")


def run_round(contestants, turn, skipped, folder, seconds):
    """{(name, ranks): {case: point}}. Case by case, because the two sides of a ratio should be measured within
    seconds of each other, and each round starting with another contestant, so that nobody always follows the same."""
    results = {contestant.key: {} for contestant in contestants}
    order = contestants[turn:] + contestants[:turn]
    for case in dict.fromkeys(case for contestant in contestants for case in contestant.cases):
        for contestant in order:
            if case not in contestant.cases or contestant.key in skipped:
                continue
            try:
                point = contestant.measure(folder, contestant.ranks, case, seconds)
            except Skipped as reason:
                skipped.add(contestant.key)
                say(f"skipped: {contestant.name} with {contestant.ranks} ranks: {reason}")
                continue
            if point:
                results[contestant.key][case] = point
    return results


def run_rounds(contestants, folder, rounds, seconds):
    results, skipped = [], set()
    for number in range(rounds):
        say(f"round {number + 1} of {rounds} …")
        results.append(run_round(contestants, number % len(contestants), skipped, folder, seconds))
    return results


def say(line):
    print(line, file=sys.stderr, flush=True)
