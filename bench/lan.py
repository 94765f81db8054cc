"""Hosts that are network namespaces of this machine, on one switch, with links as slow as asked for.

    with lan.hosts(4, "1gbit") as network:
        subprocess.run(network.command(0, ["hostname"]))

Each has a network, a host name and 127.0.0.1 of its own; files, memory and cores are shared. A link is shaped in both
directions by a token bucket, so that all traffic of a host shares it. Names are random, and whatever ends the block,
the hosts and every process on them are gone afterwards.
"""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SUBNET = "10.77.0.0/24"
DEVICE = "eth0"
# Of a shaped link: how far the token bucket lets it run ahead after a pause, and how long its queue is. The kernel hands
# TCP's data to a link in pieces of up to 64 KiB.
BURST = "256kb"
QUEUE = "50ms"


@dataclasses.dataclass(frozen=True)
class Lan:
    name: str
    size: int
    remote_shell: str = ""  # SCRIPT ADDRESS COMMAND…, as ssh

    def namespace(self, host):
        return f"{self.name}-{host + 1}"

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def command(self, host, command):
        """The command, so that it runs on that host; it stays the process that was started."""
        inside = ["ip", "netns", "exec", self.namespace(host), "unshare", "--uts"]
        return [*inside, "sh", "-c", 'hostname "$0" && exec "$@"', self.namespace(host), *command]


@contextlib.contextmanager
def hosts(count, rate=None, burst=BURST, congestion_control=None):
    """`rate` as tc writes it, 1gbit for example; None leaves the links as quick as the machine. `congestion_control` of
    TCP; None leaves that which the machine has."""
    demand_root()
    name = f"pl{secrets.token_hex(3)}"
    switch = f"{name}-switch"
    with tempfile.TemporaryDirectory(prefix="paceline-lan.") as folder:
        network = Lan(name, count, f"{folder}/rsh")
        write_remote_shell(network)
        try:
            make_switch(switch)
            for host in range(count):
                make_host(network, host, switch)
                if congestion_control:
                    set_congestion_control(network, host, congestion_control)
                if rate:
                    shape(network, host, switch, rate, burst)
            yield network
        finally:
            with undisturbed():
                for host in range(count):
                    remove(network.namespace(host))
                remove(switch)


def demand_root():
    for program in ("ip", "sysctl", "tc", "unshare"):
        if shutil.which(program) is None:
            stop(f"This needs {program}, of the packages iproute2, procps and util-linux.")
    if os.geteuid() != 0:
        stop("This needs root: its hosts are network namespaces.")


def stop(sentence):
    print(sentence, file=sys.stderr)
    sys.exit(2)


def run(*words):
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode != 0:
        stop(f"`{' '.join(words)}` failed: {made.stderr.strip()}")


def make_switch(name):
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "add", "switch", "type", "bridge")
    run("ip", "-n", name, "link", "set", "switch", "up")


def port_of(host):
    return f"port{host + 1}"


def make_host(network, host, switch):
    name, port = network.namespace(host), port_of(host)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", DEVICE, "netns", name, "type", "veth", "peer", "name", port, "netns", switch)
    run("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
    run("ip", "-n", name, "address", "add", f"{network.address(host)}/24", "dev", DEVICE)
    run("ip", "-n", name, "link", "set", DEVICE, "up")
    run("ip", "-n", name, "link", "set", "lo", "up")


def set_congestion_control(network, host, name):
    run("ip", "netns", "exec", network.namespace(host), "sysctl", "--write", f"net.ipv4.tcp_congestion_control={name}")


def shape(network, host, switch, rate, burst):
    for place, device in ((network.namespace(host), DEVICE), (switch, port_of(host))):
        bucket = ["rate", rate, "burst", burst, "latency", QUEUE]
        run("tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", *bucket)


def write_remote_shell(network):
    script = pathlib.Path(network.remote_shell)
    inside = f'ip netns exec {network.name}-"$host" unshare --uts sh -c "hostname {network.name}-$host; $*"'
    script.write_text(f'#!/bin/sh\nhost=${{1##*.}}\nshift\nexec {inside}\n')
    script.chmod(0o700)


def processes(namespace):
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def remove(namespace):
    deadline = time.monotonic() + 5
    while (pids := processes(namespace)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


@contextlib.contextmanager
def undisturbed():
    """A second Ctrl-C waits until this is done."""
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
