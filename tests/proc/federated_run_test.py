#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`isthmus federated run` with real processes on the loopback interface: models get better and are the same on all members, clusters follow
a drift, killed and stopped members hold nobody up beyond the deadline and come back, what does not fit is refused. Usage:
federated_run_test.py ISTHMUS PATIENCE."""
from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ISTHMUS = ""
LIMIT_S = 100
# What a deadline may be exceeded by, on a machine that does other things too.
SLACK_S = 0.2
LABEL = ("--scenario", "label", "--clients", "6")
LONG = ("--rounds", "10000", "--drift-every", "10000")  # the test ends it
MASKED = ("--masked", "--clip", "0.2")


class Process:
    """A program whose lines are read as they come."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([ISTHMUS, "federated", "run", "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[dict] = []
        self.news = ""
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read, daemon=True), threading.Thread(target=self.read_news, daemon=True)]
        for reader in self.readers:
            reader.start()

    def read(self) -> None:
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(json.loads(line))
                self.changed.notify_all()

    def read_news(self) -> None:
        for line in self.process.stderr:
            with self.changed:
                self.news += line
                self.changed.notify_all()

    def wait_until(self, what) -> None:
        """what(self) is true; fails with all that was said."""
        with self.changed:
            if not self.changed.wait_for(lambda: what(self), LIMIT_S):
                raise AssertionError(f"did not come: {self.lines[-3:]} {self.news}")

    def rounds(self) -> list[dict]:
        with self.changed:
            return [line for line in self.lines if "round" in line]

    def wait_for_round(self, number: int) -> None:
        self.wait_until(lambda one: any(line.get("round", 0) >= number for line in one.lines))

    def end(self) -> int:
        code = self.process.wait(LIMIT_S)
        for reader in self.readers:
            reader.join(LIMIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)


class Run(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.secret = self.file("secret", "a secret of enough bytes")
        self.started: list[Process] = []
        self.addCleanup(self.end_all)

    def file(self, name: str, text: str) -> str:
        path = pathlib.Path(self.folder.name) / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def end_all(self) -> None:
        for one in self.started:
            if one.process.poll() is None:
                one.kill()
            one.end() if not one.process.stdout.closed else None

    def start(self, *words: str) -> Process:
        self.started.append(Process(*words))
        return self.started[-1]

    def lead(self, members: int, *words: str) -> Process:
        self.coordinator = self.start("--listen", "127.0.0.1:0", "--members", str(members), "--secret-file", self.secret, *words)
        self.coordinator.wait_until(lambda one: one.lines)
        self.address = self.coordinator.lines[0]["listening"][0]
        return self.coordinator

    def member(self, number: int, *words: str) -> Process:
        return self.start("--connect", self.address, "--member", str(number), "--secret-file", self.secret, *words)

    def check_models(self, coordinator: Process, members: dict[int, list[Process]]) -> None:
        """Whoever has a common model has the coordinator's."""
        compared = 0
        for number, processes in members.items():
            for line in [line for process in processes for line in process.rounds()]:
                led = [each for each in coordinator.rounds() if each["round"] == line["round"]]
                for part in line["clusters"]:
                    if part["model"] is None or not led:
                        continue
                    cluster = led[0]["clusters"][part["cluster"]]
                    if "failure" in cluster:
                        continue
                    self.assertEqual(part["model"], cluster["model"], (number, line, led[0]))
                    self.assertEqual(part["counted"], number in cluster["survivors"], (number, line, led[0]))
                    compared += 1
        self.assertGreater(compared, 0)

    def check_times(self, coordinator: Process, deadline_s: float) -> None:
        for line in coordinator.rounds():
            self.assertLessEqual(line["seconds"], deadline_s + SLACK_S, line)

    # --- rounds ----------------------------------------------------------------------------------------------------------------

    def test_one_round_of_two_members(self) -> None:
        coordinator = self.lead(2, "--rounds", "1", "--k", "1", "--clients", "4")
        members = {number: [self.member(number)] for number in range(2)}
        self.assertEqual([one.end() for (one,) in members.values()], [0, 0], coordinator.news)
        self.assertEqual(coordinator.end(), 0, coordinator.news)
        (line,) = coordinator.rounds()
        (cluster,) = line["clusters"]
        self.assertEqual((cluster["survivors"], cluster["weight_sum"], cluster["sum"]), ([0, 1], 2 * 4 * 40, "plain"))
        self.assertEqual((line["sizes"], line["k"], line["answers"]), ([8], 1, 2))
        self.check_models(coordinator, members)

    def run_to_the_end(self, *words: str) -> list[dict]:
        coordinator = self.lead(4, *LABEL, "--rounds", "14", "--drift-every", "8", "--big-drift", "8", *words)
        members = {number: [self.member(number)] for number in range(4)}
        for (one,) in members.values():
            self.assertEqual(one.end(), 0, one.news)
        self.assertEqual(coordinator.end(), 0, coordinator.news)
        self.check_models(coordinator, members)
        rounds = coordinator.rounds()
        self.assertEqual([line["round"] for line in rounds], list(range(1, 15)))
        return rounds

    def test_clusters_follow_a_drift_and_models_get_better(self) -> None:
        for words in ((), MASKED, ("--model", "mlp", *MASKED)):
            with self.subTest(words=words):
                rounds = self.run_to_the_end(*words)
                self.assertEqual(rounds[0]["cause"], "first")
                self.assertEqual(rounds[0]["k"], 4)
                self.assertEqual([line["round"] for line in rounds if line["reclustered"]], [8], rounds)
                self.assertGreater(rounds[7]["epoch"], rounds[6]["epoch"])
                self.assertEqual([line["reported"] for line in rounds[1:7]], [0] * 6, "silence means unchanged")
                self.assertGreater(rounds[6]["accuracy"], 0.75)
                self.assertGreater(rounds[13]["accuracy"], 0.75)
                for line in rounds:
                    kinds = {cluster["sum"] for cluster in line["clusters"] if cluster["members"]}
                    self.assertEqual(kinds, {"masked" if "--masked" in words else "plain"}, line)
                    self.assertEqual(sum(line["sizes"]), 24)
                    self.assertEqual(len(line["het"]), line["k"])

    def test_gradients_are_of_a_probe_that_rounds_make(self) -> None:
        coordinator = self.lead(3, "--scenario", "concept", "--clients", "8", "--rounds", "5", "--warm-up", "2", "--k", "4")
        members = {number: [self.member(number)] for number in range(3)}
        self.assertEqual([one.end() for (one,) in members.values()], [0, 0, 0], coordinator.news)
        self.assertEqual(coordinator.end(), 0, coordinator.news)
        self.check_models(coordinator, members)
        self.assertEqual([(line["k"], line["reported"]) for line in coordinator.rounds()][:3], [(1, 0), (1, 0), (4, 24)])

    # --- members that go -------------------------------------------------------------------------------------------------------

    def test_members_are_killed_and_come_back(self) -> None:
        """At moments all over a round. The others go on with the same models, and the killed one is taken back."""
        deadline_s = 2
        for words in ((), MASKED):
            coordinator = self.lead(4, *LABEL, "--rounds", "10000", "--drift-every", "50", "--deadline", f"{deadline_s}s", "--quorum", "0.5",
                                    *words)
            members = {number: [self.member(number)] for number in range(4)}
            coordinator.wait_for_round(2)
            for trial in range(8):
                victim = trial % 4
                before = coordinator.rounds()[-1]["round"]
                coordinator.wait_for_round(before + 1)
                time.sleep(0.004 * trial)
                members[victim][-1].kill()
                coordinator.wait_until(lambda one: any(line.get("round", 0) > before and victim not in line["members"] for line in one.lines))
                members[victim].append(self.member(victim))
                coordinator.wait_until(lambda one: one.lines[-1].get("round", 0) > before + 2 and one.lines[-1]["members"] == [0, 1, 2, 3])
            last = coordinator.rounds()[-1]["round"]
            coordinator.wait_for_round(last + 2)
            self.assertTrue(all(len(cluster["survivors"]) == len(cluster["members"])
                                for cluster in coordinator.rounds()[-1]["clusters"]), coordinator.rounds()[-1])
            coordinator.kill(signal.SIGINT)
            self.assertEqual(coordinator.end(), 130)
            for processes in members.values():
                processes[-1].end()
                self.assertIn("the coordinator was stopped: Interrupt", processes[-1].news)
            self.check_times(coordinator, deadline_s)
            self.check_models(coordinator, members)

    def test_a_member_that_hangs_is_left_out_and_comes_back(self) -> None:
        for words in ((), MASKED):
            coordinator = self.lead(4, *LABEL, *LONG, "--deadline", "1s", *words)
            members = {number: [self.member(number)] for number in range(4)}
            coordinator.wait_for_round(3)
            members[1][0].kill(signal.SIGSTOP)
            stopped = coordinator.rounds()[-1]["round"]
            coordinator.wait_for_round(stopped + 3)
            line = coordinator.rounds()[-1]
            self.assertEqual(line["members"], [0, 2, 3], line)
            self.assertTrue(all("failure" not in cluster for cluster in line["clusters"]), line)
            members[1][0].kill(signal.SIGCONT)
            coordinator.wait_until(lambda one: one.lines[-1].get("members") == [0, 1, 2, 3] and one.lines[-1]["round"] > stopped + 3)
            coordinator.wait_for_round(coordinator.rounds()[-1]["round"] + 2)
            coordinator.kill(signal.SIGTERM)
            self.assertEqual(coordinator.end(), 143)
            for (one,) in members.values():
                one.end()
            self.check_times(coordinator, 1)
            self.check_models(coordinator, members)

    def test_a_round_that_nobody_answers_has_no_accuracy(self) -> None:
        coordinator = self.lead(2, "--k", "1", "--clients", "4", *LONG, "--deadline", "1s")
        members = [self.member(number) for number in range(2)]
        coordinator.wait_for_round(2)
        for one in members:
            one.kill(signal.SIGSTOP)
        coordinator.wait_until(lambda one: any(line.get("answers") == 0 for line in one.lines))
        for line in coordinator.rounds():
            self.assertEqual(line["accuracy"] is None, line["answers"] == 0, line)

    def test_clusters_too_small_for_masks(self) -> None:
        for words, kind in (((), "none"), (("--plain-small",), "plain")):
            coordinator = self.lead(3, "--k", "1", "--clients", "4", *LONG, "--deadline", "1s", *MASKED, *words)
            members = [self.member(number) for number in range(3)]
            coordinator.wait_for_round(2)
            members[2].kill()
            coordinator.wait_until(lambda one: one.lines[-1].get("members") == [0, 1])
            coordinator.wait_for_round(coordinator.rounds()[-1]["round"] + 2)
            line = coordinator.rounds()[-1]
            self.assertEqual(line["clusters"][0]["sum"], kind, line)
            if kind == "none":
                self.assertIn("2 members are too few for a masked sum", line["clusters"][0]["failure"])
                self.assertIsNone(members[0].rounds()[-1]["clusters"][0]["model"])
            coordinator.kill(signal.SIGTERM)
            self.assertEqual(coordinator.end(), 143)

    def test_members_can_be_stopped_while_they_train(self) -> None:
        self.lead(2, *LONG, "--clients", "20", "--samples", "5000", "--epochs", "1000", "--deadline", "100s")
        members = [self.member(number) for number in range(2)]
        for one in members:
            one.wait_until(lambda each: each.lines)
        time.sleep(2)
        for one, number, code in zip(members, (signal.SIGTERM, signal.SIGINT), (143, 130)):
            asked_at = time.monotonic()
            one.kill(number)
            self.assertEqual(one.end(), code, one.news)
            self.assertLess(time.monotonic() - asked_at, 10)

    def test_too_few_members(self) -> None:
        coordinator = self.lead(3, "--wait", "1s", "--quorum", "0.6")
        one = self.member(1)
        self.assertEqual(coordinator.end(), 1)
        self.assertIn("1 of 3 members are here after 1 s, and 2 are needed; missing: 0,2", coordinator.news)
        self.assertEqual(one.end(), 1)
        self.assertIn("1 of 3 members are here", one.news)

    # --- what is refused -------------------------------------------------------------------------------------------------------

    def test_strangers(self) -> None:
        coordinator = self.lead(2)
        wrong = self.start("--connect", self.address, "--member", "0", "--secret-file", self.file("other", "another secret of enough"),
                           "--reach", "1s")
        self.assertEqual(wrong.end(), 1)
        self.assertIn("the peer does not hold this communicator's secret", wrong.news)
        beyond = self.member(2)
        self.assertEqual(beyond.end(), 1)
        self.assertIn("there is no member 2: they have the numbers 0 to 1", beyond.news)
        first = self.member(0)
        coordinator.wait_until(lambda one: "member 0 has come" in one.news)
        second = self.member(0, "--reach", "1s")
        self.assertEqual(second.end(), 1)
        self.assertIn("member 0 is here already", second.news)
        images = self.file("images", "".join(",".join([str((7 * i + row * row) % 17) for i in range(64)] + [str(row % 10)]) + "\n"
                                             for row in range(200)))
        other = self.member(1, "--data", images)
        self.assertEqual(other.end(), 1)
        self.assertIn("its images are others than the first member's", other.news)
        first.kill(signal.SIGINT)
        self.assertEqual(first.end(), 130)
        coordinator.wait_until(lambda one: "member 0 is gone: has left" in one.news)
        coordinator.kill(signal.SIGINT)
        self.assertEqual(coordinator.end(), 130)

    def test_command_lines(self) -> None:
        listen = ("--listen", "127.0.0.1:0", "--members", "4")
        for code, said, words in (
            (2, "one of --listen and --connect", ()),
            (2, "--members is required", ("--listen", "127.0.0.1:0")),
            (2, "--member is required", ("--connect", "127.0.0.1:1")),
            (2, "--reach is for --connect", (*listen, "--reach", "1s")),
            (2, "--listen", ("--connect", "127.0.0.1:1", "--member", "1", "--rounds", "2")),
            (2, "there is no scenario 'x'", (*listen, "--scenario", "x")),
            (2, "there is no model 'x'", (*listen, "--model", "x")),
            (2, "--codec x", (*listen, "--codec", "x")),
            (2, "--deadline soon", (*listen, "--deadline", "soon")),
            (2, "--deadline 1ms: at least 100ms", (*listen, "--deadline", "1ms")),
            (2, "--big-drift 7 is no multiple", (*listen, "--big-drift", "7")),
            (2, "--k 64: there are only 8", (*listen, "--clients", "2", "--k", "64")),
            *((2, f"{option[0]} is for --masked", (*listen, *option))
              for option in (("--plain-small",), ("--neighbours", "2"), ("--clip", "1"), ("--min-cohort", "5"))),
            *((2, f"{option}: nan: a number from", (*listen, option, "nan"))
              for option in ("--quorum", "--lr", "--alpha", "--drift-share", "--tau", "--clip")),
            (2, "--seed: -1: a whole number", (*listen, "--seed", "-1")),
            (2, "--masked", ("--listen", "127.0.0.1:0", "--members", "2", "--masked")),
            (2, "more than 65536", ("--listen", "127.0.0.1:0", "--members", "1000", "--clients", "1000")),
            (2, "and 65535 is the last", ("--listen", "127.0.0.1:65530", "--members", "2")),
            (1, "/none/such", ("--connect", "127.0.0.1:1", "--member", "0", "--data", "/none/such")),
        ):
            with self.subTest(words=words):
                one = self.start(*words)
                self.assertEqual(one.end(), code, one.news)
                self.assertIn(said, one.news)


if __name__ == "__main__":
    ISTHMUS = sys.argv.pop(1)
    SLACK_S *= float(sys.argv.pop(1))
    unittest.main(verbosity=2)
