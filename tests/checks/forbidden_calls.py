#!/usr/bin/env -S python3 -B
"""Checks that a module waits and reads time only as docs/architecture.md says, and who reads the environment.

usage: forbidden_calls.py [ROOT]

The sim fabric runs the real code in virtual time, one rank at a time. That is exact only if the modules above fabric
sleep, block and read time through Endpoint and Clock alone. Unit tests (*_test.cpp) are free.
"""

import re
import sys
from pathlib import Path

from source_tree import TABLE, Finding, Rule, code_lines, cpp_files, is_test, module_folders, module_rules, report

# The cells "time and waiting" of the modules that the lists below hold for.
LIMITED = ("through Endpoint and Clock", "not at all")

HEADERS = re.compile(
    r"\s*#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|ctime|time\.h"
    r"|poll\.h|pthread\.h|threads\.h|unistd\.h|linux/futex\.h"
    r"|sys/(?:epoll|eventfd|poll|select|socket|syscall|time|timerfd|wait)\.h)>"
)
CALLS = re.compile(
    r"\b(std::this_thread|this_thread\s*::"
    r"|(?:steady_clock|high_resolution_clock)\s*::\s*now|system_clock|SteadyClock|clock_gettime|gettimeofday"
    r"|std::time\b|__rdtsc|__builtin_ia32_rdtsc"
    r"|(?:sleep|usleep|nanosleep|clock_nanosleep|sleep_for|sleep_until)\s*(?=\()"
    r"|epoll_\w+|ppoll|pselect|sched_yield|futex|SYS_\w+|pthread_\w+"
    r"|std::(?:thread|jthread|async|future|promise|latch|barrier|binary_semaphore|counting_semaphore)\b"
    r"|(?:std::)?(?:recursive_|timed_|shared_)?mutex\b|condition_variable(?:_any)?"
    r"|lock_guard|unique_lock|scoped_lock|shared_lock)"
)
# The system call, not a member or a declaration of that name.
POLL = re.compile(r"(?:^|[=(!{};,]|\breturn\b)\s*(?:::\s*)?(poll)\s*\([^)]*,")
GETENV = re.compile(r"\b(getenv|secure_getenv)\b")


def check_waiting(root: Path, folder: Path, rule: Rule) -> list[Finding]:
    findings = []
    for file in cpp_files(folder):
        if is_test(file):
            continue
        name = str(file.relative_to(root))
        for number, text in enumerate(code_lines(file), start=1):
            if found := HEADERS.match(text) or CALLS.search(text) or POLL.search(text):
                limit = f"time and waiting in {folder.name}: {rule.waits} ({TABLE}:{rule.line})"
                findings.append(Finding(name, number, f"{found[1].strip()}: {limit}"))
    return findings


def check_environment(root: Path, folder: Path) -> list[Finding]:
    findings = []
    for file in cpp_files(folder):
        name = str(file.relative_to(root))
        if is_test(file) or name == "paceline/launch/join.cpp":
            continue
        for number, text in enumerate(code_lines(file), start=1):
            if found := GETENV.search(text):
                sentence = f"{found[1]}: below cli only paceline/launch/join.cpp reads the environment"
                findings.append(Finding(name, number, sentence))
    return findings


def check(root: Path) -> list[Finding]:
    rules = module_rules(root)
    findings = []
    for folder in module_folders(root):
        rule = rules.get(folder.name)
        if rule and rule.waits in LIMITED:
            findings += check_waiting(root, folder, rule)
        if folder.name != "cli":
            findings += check_environment(root, folder)
    return findings


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    sys.exit(report(check(Path(sys.argv[1]) if len(sys.argv) > 1 else here)))
