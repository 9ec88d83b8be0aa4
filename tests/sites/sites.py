#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program on emulated hosts in several sites, joined by shaped links, on this machine. As root; nothing is left behind, not even
after kill -9: all processes live in one PID namespace that ends with this program.

    sites.py LAYOUT [OPTION...] -- PROGRAM [ARG...]       with a rank on every host, through `isthmus run`
    sites.py LAYOUT [OPTION...] --bare -- PROGRAM [ARG...]  once, beside the hosts; {hosts} and {agent} in its arguments are replaced by
                                                          the hosts' names and by the command that runs words on a host; {links}
                                                          by the file that takes linkemu's commands, such as delay * 20ms
    sites.py --enter HOST WORD...                         that command

With --delay, --jitter, --loss or --script the links between the sites are linkemu's (docs/emulated-sites.md), else the kernel's tbf's.

Prints the byte counters of every site's uplink at the end. After all_reduce_perf and reduce_scatter_perf with --codec it also prints
what each host has sent, beside the formula of the algorithm and the codec. Ranks are told their site (ISTHMUS_SITE). Exit code: the
program's; 1 if the two differ by more than 2 %, 2 for a wrong command line, 124 after --timeout, 77 where the kernel does not let hosts
be made.
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import formula
from emulator import Emulator
from fabric import Counters, Fabric, enter_command, has_netem
from layout import around_sites, Host, Link, linkemu_mtu, parse_duration, parse_layout, parse_rate, parse_share, parse_size, sites_of

HOLDERS = "ISTHMUS_RUN_SITES"  # tells --enter which process holds which host, and its site: h0=12@0,h1=15@1
SITE = "ISTHMUS_SITE"  # tells a rank which building it is in
ENDING_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
GRACE_S = 15  # for the program, after the first signal or the timeout
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
EXIT_DIFFERS, EXIT_NO_LINKS, EXIT_TIMEOUT, EXIT_UNSUPPORTED, EXIT_NOT_STARTED = 1, 1, 124, 77, 127
SELF = pathlib.Path(__file__).resolve()

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def add_link_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delay", type=_value(parse_duration), default=0, help="one way, between sites, such as 10ms (none)")
    parser.add_argument("--jitter", type=_value(parse_duration), default=0, help="delays are uniform within delay ± jitter (none)")
    parser.add_argument("--loss", type=_value(parse_share), default=0.0, help="of packets between sites, at random, such as 0.1%% (none)")
    parser.add_argument("--queue", type=_value(parse_size), help="what an uplink holds back before it drops, in bytes, such as 1MB")
    parser.add_argument("--queue-ms", type=int, default=Link.queue_ms, help="the same as time at its rate (50)")
    parser.add_argument("--script", default="", help="a file of timed changes, such as: at 3s: rate out:site0 50Mbit")
    parser.add_argument("--mtu", type=int, help="bytes (1500; with linkemu 9000 above 120M, 60000 above 720M)")
    parser.add_argument("--backend", choices=["auto", "tbf", "linkemu", "netem"], default="auto", help="what shapes the links (auto)")


def link_of(options: argparse.Namespace) -> Link:
    """ValueError for what does not go together."""
    shapes = options.delay or options.jitter or options.loss or options.script
    backend = options.backend if options.backend != "auto" else "linkemu" if shapes else "tbf"
    if backend == "tbf" and shapes:
        raise ValueError("tbf has a rate and a queue only; --delay, --jitter, --loss and --script are linkemu's")
    if backend == "netem" and options.script:
        raise ValueError("--script is linkemu's")
    if options.jitter > options.delay:
        raise ValueError("--jitter may not be more than --delay: nothing arrives before it is sent")
    if shapes and len(sites_of(options.hosts)) < 2:
        raise ValueError("links are between sites, and this layout has one")
    mtu = options.mtu or (linkemu_mtu(options.rate) if backend == "linkemu" else Link.mtu_bytes)
    if not 576 <= mtu <= 65_000 or options.queue_ms < 1:
        raise ValueError("--mtu from 576 to 65000, --queue-ms from 1")
    return Link(options.rate, mtu, options.queue_ms, options.queue, options.delay, options.jitter, options.loss, backend)


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sites", usage="sites LAYOUT [OPTION...] -- PROGRAM [ARG...]",
                                     description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("hosts", metavar="LAYOUT", type=_value(parse_layout), help="2x2: two sites of two hosts; 3+1: three hosts and one")
    parser.add_argument("--rate", type=_value(parse_rate), default=Link.rate_bits_per_s, help="of every site's uplink, each way, in bit/s (200M)")
    add_link_arguments(parser)
    parser.add_argument("--congestion", default="cubic", help="congestion control; '' for the system's (cubic)")
    parser.add_argument("--ranks-per-host", type=int, default=1, help="ranks that every host gets (1)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds (600)")
    parser.add_argument("--cyclic", action="store_true", help="ranks go around the sites, so that neighbours are at different ones")
    parser.add_argument("--bare", action="store_true", help="run the program once, beside the hosts")
    parser.add_argument("program", nargs="+", metavar="PROGRAM", help="with its arguments, after --")
    mark = words.index("--") if "--" in words else len(words)
    if {"-h", "--help"} & set(words[:mark]):
        parser.print_help()
        sys.exit(0)
    if mark == len(words):
        parser.error("the program comes after --")
    options = parser.parse_args(words[:mark] + ["--"] + words[mark + 1:])
    if options.ranks_per_host < 1:
        parser.error("--ranks-per-host from 1")
    try:
        options.link = link_of(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def _value(parse):
    """An argparse type that keeps the text of a ValueError."""
    def convert(text: str):
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def command_for(options: argparse.Namespace, links: str) -> list[str]:
    agent = f"{sys.executable} {SELF} --enter"
    if options.bare:
        names = ",".join(host.name for host in options.hosts)
        return [word.replace("{hosts}", names).replace("{agent}", agent).replace("{links}", links) for word in options.program]
    launcher = shutil.which("isthmus")
    if launcher is None:
        sys.exit("sites: the isthmus tool is not on PATH; ./dev sites puts it there")
    hosts = around_sites(options.hosts) if options.cyclic else options.hosts
    places = ",".join(f"{host.name}:{options.ranks_per_host}" for host in hosts)
    program = shutil.which(options.program[0]) or options.program[0]
    return [launcher, "run", "--hosts", places, "--agent", agent + " {host}", "--", program, *options.program[1:]]


def enter(host: str, words: list[str]) -> None:
    """Becomes the words, on the host."""
    holders = dict(entry.split("=") for entry in os.environ.get(HOLDERS, "").split(",") if entry)
    if host not in holders:
        sys.exit(f"sites: no host '{host}' here; there are: {' '.join(holders) or 'none'}")
    holder, _, site = holders[host].partition("@")
    os.environ.setdefault(SITE, f"site{site}")
    command = enter_command(int(holder), words, os.getcwd())
    os.execvp(command[0], command)


def supervise(command: list[str], environment: dict[str, str], timeout_s: float, emulator: Emulator | None) -> int:
    """Runs the command to its end, or to its grace's end after a signal, the timeout or the emulator's end. Reaps every orphan, as the first
    process must."""
    listened = ENDING_SIGNALS | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, listened)
    try:
        program = subprocess.Popen(command, env=environment, start_new_session=True,
                                   preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, listened))
    except OSError as error:
        print(f"sites: {error}", file=sys.stderr)
        return EXIT_NOT_STARTED
    if emulator is not None:
        emulator.start_script()
    deadline, ended_by = time.monotonic() + timeout_s, 0
    while True:
        got = signal.sigtimedwait(listened, max(0.0, deadline - time.monotonic()))
        while (reaped := _reap_one())[0]:
            if reaped[0] == program.pid:
                return ended_by or os.waitstatus_to_exitcode(reaped[1])
            if emulator is not None and reaped[0] == emulator.pid and not ended_by:
                print("sites: linkemu, which is the links, has ended; ending", file=sys.stderr)
                ended_by, deadline = EXIT_NO_LINKS, time.monotonic() + GRACE_S
                os.kill(program.pid, signal.SIGTERM)
        if got is not None and got.si_signo == signal.SIGCHLD:
            continue
        if ended_by:
            return ended_by
        ended_by = EXIT_TIMEOUT if got is None else 128 + got.si_signo
        print(f"sites: {'the time is up' if got is None else signal.Signals(got.si_signo).name}, ending", file=sys.stderr)
        os.kill(program.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S


def _reap_one() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def print_counters(counters: dict[int, Counters]) -> None:
    for site, now in counters.items():
        print(f"uplink of site {site}: out {now.out_bytes} B, in {now.in_bytes} B, {now.dropped_packets} packets dropped", flush=True)


def print_links(links: dict[str, dict]) -> None:
    for name, link in links.items():
        taken, delivered = link["taken"], link["delivered"]
        print(f"link {name}: {taken['frames']} packets of {taken['bytes']} B, {delivered['bytes']} B delivered, "
              f"{link['dropped']['frames']} packets dropped, {link['lost']['frames']} lost", flush=True)


class Report:
    """The JSON file of a sweep with a codec: the user's, or else one of our own that goes with us."""

    def __init__(self, options: argparse.Namespace):
        words = options.program
        has_codec = any(word == "--codec" or word.startswith("--codec=") for word in words)
        self.path, self._own = None, False
        if options.bare or not has_codec or pathlib.Path(words[0]).name not in formula.COLLECTIVES:
            return
        given = [following for word, following in zip(words, words[1:]) if word in ("-J", "--output_file")]
        if not given:
            self._own = True
            given = [f"{tempfile.mkdtemp(prefix='isthmus-sites-')}/report.json"]
            words += ["-J", given[0]]
        self.path = pathlib.Path(given[-1])

    def document(self) -> dict:
        return json.loads(formula.written(self.path).read_text())

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_) -> None:
        if self._own:
            shutil.rmtree(self.path.parent, ignore_errors=True)


def compare_with_formula(report: Report, sent: dict[str, int], options: argparse.Namespace) -> int:
    """Says what hosts have sent, and how far that is from the formula; the exit code."""
    for host, count in sent.items():
        print(f"host {host}: sent {count} B without headers", flush=True)
    try:
        if options.ranks_per_host > 1:
            raise ValueError("ranks of one host send each other bytes that no interface sees")
        if options.loss:
            raise ValueError("what is lost is sent again")
        sweep = formula.Sweep(report.document(), len(sites_of(options.hosts)))
        expected = sweep.sent()
        if expected < formula.LEAST_BYTES:
            raise ValueError(f"{expected:.0f} B are too few to compare; take larger sizes")
    except (OSError, ValueError) as error:
        print(f"formula: none: {error}", flush=True)
        return 0
    host, share = sweep.farthest_host(sent)
    print(f"formula: {expected:.0f} B sent by each host; {host} is {100 * share:+.2f} % off, {_verdict(share)}", flush=True)
    size, of_row = sweep.farthest_row() or (0, 0.0)
    if size:
        print(f"formula: calls of {size} B: what the library counts is {100 * of_row:+.2f} % off, {_verdict(of_row)}", flush=True)
    return 0 if max(abs(share), abs(of_row)) <= formula.TOLERANCE else EXIT_DIFFERS


def _verdict(share: float) -> str:
    return f"{'within' if abs(share) <= formula.TOLERANCE else 'MORE THAN'} {100 * formula.TOLERANCE:g} %"


def live(options: argparse.Namespace) -> int:
    """The life of the first process in the PID namespace: makes the world, runs the program in it. What it leaves goes with it."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # the terminal's signals come through the process outside
    try:
        _call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
        subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)
        if options.link.backend == "netem" and not has_netem():
            print("sites: this kernel has no netem; without --backend the links are linkemu's, in user space", file=sys.stderr)
            return EXIT_UNSUPPORTED
        fabric = Fabric(options.hosts, options.link, options.congestion, options.script)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"sites: hosts cannot be made here: {error}", file=sys.stderr)
        return EXIT_UNSUPPORTED
    holders = ",".join(f"{host.name}={fabric.pids[host.name]}@{host.site}" for host in options.hosts)
    print(f"{len(options.hosts)} hosts, {options.link}", flush=True)
    with Report(options) as report:
        command = command_for(options, fabric.emulator.commands if fabric.emulator else "/dev/null")
        code = supervise(command, {**os.environ, HOLDERS: holders}, options.timeout, fabric.emulator)
        print_counters(fabric.counters())
        print_links(fabric.links())
        if report.path is not None and code == 0:
            code = compare_with_formula(report, fabric.sent_by_hosts(), options)
    return code if code >= 0 else 128 - code


def run_in_namespace(options: argparse.Namespace) -> int:
    """Forks the first process of a PID namespace and waits for it, passing signals on."""
    try:
        _call("unshare", CLONE_NEWPID)
    except OSError as error:
        print(f"sites: hosts cannot be made here: {error}", file=sys.stderr)
        return EXIT_UNSUPPORTED
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = live(options)
        except SystemExit as end:
            print(end, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # not the forked parent's way out
    for number in ENDING_SIGNALS:
        signal.signal(number, lambda number, _: os.kill(child, number))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    if sys.argv[1:2] == ["--enter"]:
        enter(sys.argv[2], sys.argv[3:])
    options = parse_arguments(sys.argv[1:])
    if os.geteuid() != 0:
        print("sites: hosts cannot be made here: only root may make namespaces; try sudo", file=sys.stderr)
        return EXIT_UNSUPPORTED
    return run_in_namespace(options)


if __name__ == "__main__":
    sys.exit(main())
