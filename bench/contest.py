"""Runs contestants in turn and collects what they print: one JSON line per size."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Callable


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    ranks: int
    sizes: list[int]
    # (folder of programs, ranks, size) -> commands, to which --ranks, --bytes and --seconds are added. Of several the
    # quickest counts: a peer shows its best.
    commands: Callable[[pathlib.Path, int, int], list[list[str]]]

    @property
    def key(self):
        return (self.name, self.ranks)


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    subject: str  # whose ratios are shown
    ranks: int
    sizes: list[int]
    peers: list[str]
    # size -> {peer: least ratio}: peer's time over the subject's
    bars: Callable[[int], dict[str, float]]


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


def run(command, timeout):
    """The lines a command printed. Whatever ends this, the command's processes end too."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Skipped(f"no result within {timeout:.0f} s") from None
    finally:
        stop(process)
    if process.returncode != 0:
        said = [line for line in (errors + output).splitlines() if line.strip(" -")]
        raise Skipped(f"exit code {process.returncode}: {said[0] if said else 'no message'}")
    return output.splitlines()


def check_programs(command):
    """The launcher and whatever it is to launch by its full path."""
    for word in command:
        if (word is command[0] or word.startswith("/")) and shutil.which(word) is None:
            raise Skipped(f"{word} is not there")


def run_contestant(contestant, size, folder, seconds):
    """The best point of one contestant for one size, or None where it printed none."""
    options = ["--ranks", str(contestant.ranks), "--bytes", str(size), "--seconds", str(seconds)]
    points = []
    for command in contestant.commands(folder, contestant.ranks, size):
        check_programs(command)
        lines = run(command + options, timeout=60 + 20 * seconds)
        points += [json.loads(line) for line in lines if line.startswith("{")]
    return min(points, key=lambda point: point["median_us"], default=None)


def run_round(contestants, turn, skipped, folder, seconds):
    """{(name, ranks): {size: point}}. Size by size, because the two sides of a ratio should be measured within
    seconds of each other, and each round starting with another contestant, so that nobody always follows the same."""
    results = {contestant.key: {} for contestant in contestants}
    order = contestants[turn:] + contestants[:turn]
    for size in sorted({size for contestant in contestants for size in contestant.sizes}):
        for contestant in order:
            if size not in contestant.sizes or contestant.key in skipped:
                continue
            try:
                point = run_contestant(contestant, size, folder, seconds)
            except Skipped as reason:
                skipped.add(contestant.key)
                say(f"skipped: {contestant.name} with {contestant.ranks} ranks: {reason}")
                continue
            if point:
                results[contestant.key][size] = point
    return results


def run_rounds(contestants, folder, rounds, seconds):
    results, skipped = [], set()
    for number in range(rounds):
        say(f"round {number + 1} of {rounds} …")
        results.append(run_round(contestants, number % len(contestants), skipped, folder, seconds))
    return results


def say(line):
    print(line, file=sys.stderr, flush=True)
