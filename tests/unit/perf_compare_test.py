#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison's and the targets' pure parts: statistics, who is the best peer, the table, verdicts, command lines. No program is
started and no clock is read. Called by the test runner with the folder of the comparison's modules."""
from __future__ import annotations

import contextlib
import io
import math
import pathlib
import sys
import time
import unittest

sys.path.insert(0, sys.argv[1])
import bars  # noqa: E402
import codec  # noqa: E402
import compare as comparison  # noqa: E402
import contenders  # noqa: E402
import emulated  # noqa: E402
import goals  # noqa: E402
import targets  # noqa: E402
from figures import (  # noqa: E402
    LIBRARY, ORDINARY, OURS, Case, Measured, Quartiles, Samples, busy_seconds, compare, parse_size, quartiles, quiet_line, size_text, still_racing, table)

CASE = Case(2, "allreduce", 1 << 20)
PLACE = contenders.Place(pathlib.Path("nowhere"))


def samples_of(times: dict[str, list[float | None]], case: Case = CASE) -> Samples:
    """Microseconds by contender, a round after the other; None where it did not finish."""
    samples = Samples()
    for name, rounds in times.items():
        for number, us in enumerate(rounds):
            if us is not None:
                samples.add(case, name, number, us)
    return samples


class Choices(unittest.TestCase):
    def test_a_plans_choice_is_a_word_that_forces_it(self):
        self.assertEqual(bars.choice_text({"algorithm": "ring", "segments": 1, "leaders": 0, "across": "direct"}), "ring")
        self.assertEqual(bars.choice_text({"algorithm": "ring", "segments": 4}), "ring/4")
        self.assertEqual(bars.choice_text({"algorithm": "hierarchy", "segments": 1, "leaders": 2}), "hierarchy/1/2")
        self.assertEqual(bars.choice_text({"algorithm": "hierarchy", "segments": 4, "leaders": 0, "across": "one_shot"}), "hierarchy/4/0/one_shot")


class Progress(unittest.TestCase):
    def test_off_a_terminal_a_line_every_ten_seconds(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            comparison.next_line_at = time.monotonic() + 1000
            comparison.progress("early")
            comparison.progress("kept", keep=True)
            comparison.next_line_at = 0
            comparison.progress("due")
            comparison.progress("too soon after it")
        self.assertEqual(err.getvalue(), "kept\ndue\n")


class Statistics(unittest.TestCase):
    def test_quartiles_lie_between_values(self):
        self.assertEqual(quartiles([3.0]), Quartiles(3, 3, 3))
        self.assertEqual(quartiles([4, 1, 3, 2]), Quartiles(1.75, 2.5, 3.25))
        self.assertEqual(quartiles([5, 1, 2, 4, 3]), Quartiles(2, 3, 4))

    def test_the_best_peer_has_the_lowest_median(self):
        found = compare(samples_of({OURS: [10, 10, 10], "steady": [20, 20, 20], "lucky once": [1, 30, 30]}), CASE)
        self.assertEqual((found.peer, found.ratio.median), ("steady", 2))

    def test_ratios_are_taken_within_rounds(self):
        # the machine became three times slower for everybody: the ratio stays
        found = compare(samples_of({OURS: [10, 10, 30], "peer": [20, 20, 60]}), CASE)
        self.assertEqual((found.ratio.low, found.ratio.high), (2, 2))

    def test_rounds_without_one_of_the_two_are_left_out(self):
        found = compare(samples_of({OURS: [10, None, 10], "peer": [None, 5, 30]}), CASE)
        self.assertEqual(found.ratio, Quartiles(3, 3, 3))
        self.assertIsNone(compare(samples_of({OURS: [10, None], "peer": [None, 5]}), CASE))

    def test_without_peers_there_is_no_ratio(self):
        self.assertIsNone(compare(samples_of({OURS: [10]}), CASE))
        self.assertIsNone(compare(samples_of({"peer": [10]}), CASE))
        self.assertIn("10.00", table(samples_of({OURS: [10]}))[-1])

    def test_of_two_calls_in_a_round_the_faster_counts(self):
        self.assertEqual(samples_of({"peer": [7]}).time(CASE, "peer").median, 7)
        samples = samples_of({"peer": [7]})
        samples.add(CASE, "peer", 0, 5)
        samples.add(CASE, "peer", 0, 9)
        self.assertEqual(samples.time(CASE, "peer").median, 5)

    def test_slow_peers_leave_the_race_size_by_size(self):
        small = Case(2, "allreduce", 8)
        screened = samples_of({"a": [10], "b": [12.9], "c": [13.1]})
        for name, us in (("a", 30), ("b", 10), ("c", 10)):
            screened.add(small, name, 0, us)
        self.assertEqual(still_racing(screened, 1.3), {"a": {CASE}, "b": {CASE, small}, "c": {small}})


class Texts(unittest.TestCase):
    def test_sizes(self):
        for text, size in (("8", 8), ("1K", 1024), ("16M", 16 << 20), ("1g", 1 << 30)):
            self.assertEqual(parse_size(text), size)
        self.assertEqual([size_text(size) for size in (8, 1000, 1024, 16 << 20)], ["8", "1000", "1K", "16M"])
        for wrong in ("", "0", "3", "4X", "1.5K", "-8", "2G"):
            with self.assertRaises(ValueError, msg=wrong):
                parse_size(wrong)

    def test_a_busy_machine_is_said(self):
        self.assertEqual(busy_seconds("cpu  100 20 300 9999 50 1 2 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", 100), 4.3)
        self.assertEqual(quiet_line(Measured(others_share=0.01)), "Others used 1% of the CPUs meanwhile.")
        self.assertIn("NOT QUIET", quiet_line(Measured(others_share=0.2)))
        self.assertIn("not known", quiet_line(Measured()))

    def test_the_table_names_the_peer(self):
        lines = table(samples_of({OURS: [10], "Open MPI ring": [15]}))
        self.assertIn("allreduce, float sum, 2 processes", lines)
        self.assertRegex(lines[-1], r"^ +1M +10\.00 +15\.00 +1\.50 +1\.50-1\.50  Open MPI ring$")

    def test_wrong_command_lines_are_refused_with_a_reason(self):
        for program, words, reason in ((comparison, ["--sizes", "8,4X"], "is no size"), (comparison, ["--rounds", "0"], "1 to 64"),
                                       (comparison, ["--collectives", "bcast"], "none of allreduce"), (comparison, ["--rond", "3"], "unrecognized"),
                                       (comparison, ["--memory", "malloc"], "neither library"),
                                       (targets, ["--only", "sped"], "none of speed"), (targets, ["--strictly"], "unrecognized"),
                                       (codec, ["--size", "3"], "is no size"), (codec, ["--iterations", "0"], "1 to 64")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
                program.parse_arguments(words)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(reason, said.getvalue())

    def test_kinds_of_memory_are_kept_apart(self):
        samples = samples_of({OURS: [10], "peer": [30]})
        ordinary = Case(2, "allreduce", 1 << 20, ORDINARY)
        samples.add(ordinary, OURS, 0, 20)
        samples.add(ordinary, "peer", 0, 30)
        self.assertEqual([compare(samples, case).ratio.median for case in samples.cases()], [3, 1.5])
        self.assertIn("allreduce, float sum, 2 processes, ordinary memory", table(samples))
        plan = comparison.Plan(PLACE, [2], ["allreduce"], [8, 1 << 20], memories=(LIBRARY, ORDINARY), cpus=2)
        self.assertEqual(plan.cases(2), [Case(2, "allreduce", 8), CASE, ordinary])

    def test_iterations_shrink_with_size(self):
        counts = [comparison.iterations_for(1 << shift) for shift in range(3, 31)]
        self.assertEqual(counts, sorted(counts, reverse=True))
        self.assertGreaterEqual(counts[-1], 1)


class Contenders(unittest.TestCase):
    def test_every_algorithm_of_open_mpi_is_forced_once(self):
        default, *forced = contenders.open_mpi(PLACE, processes=2, cpus=2)
        self.assertNotIn("coll_tuned_use_dynamic_rules", default.start)
        for collective, algorithms in contenders.OPEN_MPI_ALGORITHMS.items():
            names = [one.names[collective] for one in forced if collective in one.names]
            self.assertEqual(names, [f"Open MPI {algorithm}" for algorithm in algorithms.values()])
            for number in algorithms:
                at = forced[number - 1].start.index(f"coll_tuned_{contenders.OPEN_MPI_PARAMETER[collective]}_algorithm")
                self.assertEqual(forced[number - 1].start[at + 1], str(number))

    def test_two_proc_is_for_two(self):
        self.assertFalse(any("Open MPI two proc" in one.names.values() for one in contenders.open_mpi(PLACE, processes=4, cpus=4)))

    def test_ranks_yield_only_where_they_share_cpus(self):
        self.assertIn("mpi_yield_when_idle", contenders.open_mpi(PLACE, processes=4, cpus=2)[0].start)
        self.assertNotIn("mpi_yield_when_idle", contenders.open_mpi(PLACE, processes=2, cpus=2)[0].start)

    def test_only_what_races_is_run(self):
        cases = [Case(2, "allreduce", 8), Case(2, "reduce_scatter", 8), Case(2, "reduce_scatter", 1024)]
        forced = contenders.open_mpi(PLACE, processes=2, cpus=2)[2]
        self.assertEqual(len(forced.items(cases)), 5)
        racing = {"Open MPI recursive halving": {cases[2]}, "Open MPI ring": {cases[0]}}
        self.assertEqual(forced.items(cases, racing), [(cases[2], "reduce_scatter_counts")])

    def test_what_is_not_built_is_said(self):
        found, missing = contenders.all_contenders(PLACE, 2, 2, only_defaults=False)
        self.assertEqual([one.family for one in found], [OURS])
        self.assertEqual(len(missing), 2)
        self.assertIn("compare_isthmus", PLACE.missing("isthmus"))


class Verdicts(unittest.TestCase):
    AT_LEAST = goals.Goal("speed", "as fast", 1.0, True, "x")
    AT_MOST = goals.Goal("budgets", "short", 100, False, "ns")

    def test_the_worst_decides(self):
        self.assertEqual(goals.outcome(self.AT_LEAST, {"1M": 2.0, "4M": 0.9}).verdict, goals.MISS)
        self.assertEqual(goals.outcome(self.AT_LEAST, {"1M": 2.0, "4M": 1.0}).verdict, goals.PASS)
        self.assertEqual(goals.outcome(self.AT_MOST, {"a": 20.0, "b": 100.0}).verdict, goals.PASS)
        self.assertEqual(goals.outcome(self.AT_MOST, {"a": 20.0, "b": 101.0}).verdict, goals.MISS)
        self.assertIn("0.90x at 4M   median 1.45x", goals.outcome(self.AT_LEAST, {"1M": 2.0, "4M": 0.9}).line())

    def test_nothing_passes_without_all_measurements(self):
        self.assertEqual(goals.outcome(self.AT_LEAST, {"1M": 2.0, "4M": None}).verdict, goals.SKIPPED)
        self.assertIn("at 4M", goals.outcome(self.AT_LEAST, {"1M": 2.0, "4M": None}).line())
        self.assertEqual(goals.outcome(self.AT_LEAST, {}).verdict, goals.SKIPPED)

    def test_every_speed_target_has_a_line(self):
        sizes = [parse_size(word) for word in comparison.SIZES.split(",")]
        measured = Measured()
        for collective in goals.LARGE:
            for processes in (2, 4):
                for size in sizes:
                    measured.samples.add(Case(processes, collective, size), OURS, 0, 10)
                    measured.samples.add(Case(processes, collective, size), "peer", 0, 12)
        self.assertTrue(all(one.verdict == goals.SKIPPED for one in goals.against_peers(measured, sizes, ORDINARY)))
        outcomes = list(goals.against_peers(measured, sizes, LIBRARY))
        self.assertEqual(len(outcomes), 3 * 2 * 3)
        by_text = {one.goal.text: one for one in outcomes}
        latency = by_text["allreduce, 2 processes, 1 KiB and less: our time / best peer's"]
        self.assertTrue(math.isclose(latency.worst[1], 10 / 12))
        self.assertEqual((latency.verdict, latency.goal.wanted), (goals.PASS, 1.2))
        large = by_text["allreduce, 4 processes, 1 MiB and more: best peer's time / ours"]
        self.assertEqual((large.verdict, large.goal.wanted, sorted(large.values)), (goals.MISS, 1.5, ["16M", "1M", "4M"]))
        middle = by_text["allgather, 2 processes, 4 KiB to 1 MiB: best peer's time / ours"]
        self.assertEqual((middle.verdict, middle.goal.wanted, sorted(middle.values)), (goals.PASS, 0.95, ["256K", "4K", "64K"]))

    def test_rates_against_memory(self):
        measured = Measured(memory={("add", 1, 1 << 20): [30, 10, 20], ("allreduce -g 2", 1, 1 << 20): [50, 50, 50], ("copy", 2, 1 << 20): [45]})
        measured.samples.add(Case(2, "allgather", 1 << 20), OURS, 0, 50)
        share, gathers, ordinary = goals.against_memory(measured, [8, 1 << 20])
        self.assertEqual(ordinary.verdict, goals.SKIPPED)
        self.assertIn("ordinary memory", ordinary.goal.text)
        self.assertEqual((share.values, share.verdict), ({"1M": 0.4}, goals.MISS))
        self.assertEqual((gathers.values, gathers.verdict), ({"1M": 0.9}, goals.PASS))

    def test_benchmarks(self):
        def entry(name: str, **values) -> dict:
            return {"run_name": name, "aggregate_name": "median", "time_unit": "ns", "real_time": 50.0, **values}

        found = goals.read_benchmarks({"benchmarks": [
            entry("dispatch/one_rank/in_place"), {**entry("dispatch/one_rank/in_place"), "aggregate_name": "mean", "real_time": 900.0},
            entry("steps/copy", items_per_second=40e6), entry("kernel/copy", items_per_second=200e6),
            entry("steps/reduce", items_per_second=20e6), entry("kernel/reduce", items_per_second=100e6),
            entry("build/allreduce/ring/4096", real_time=2.0, time_unit="ms", bytes=1 << 19)]})
        dispatch, steps, build_time, build_bytes = goals.budgets(found)
        self.assertEqual((dispatch.values, dispatch.verdict), ({"": 50.0}, goals.PASS))
        self.assertEqual((steps.values, steps.verdict), ({"copy": 20.0, "reduce": 40.0}, goals.MISS))
        self.assertEqual((build_time.values, build_time.verdict), ({"allreduce/ring": 2.0}, goals.MISS))
        self.assertEqual((build_bytes.values, build_bytes.verdict), ({"allreduce/ring": 0.5}, goals.PASS))
        self.assertTrue(all(one.verdict == goals.SKIPPED for one in goals.budgets({})))

    def test_growth(self):
        lines = [{"what": "one_rank", "mapped_bytes": 6000}, {"what": "calls", "resident_bytes": 1 << 20, "descriptors": 0}]
        self.assertEqual([one.verdict for one in goals.growth(lines)], [goals.PASS, goals.MISS, goals.PASS])
        self.assertTrue(all(one.verdict == goals.SKIPPED for one in goals.growth([])))

    def test_sites(self):
        # frames carry 1000 of 1066 bytes; 8 Mbit/s carry 1000000 bytes in 1.066 s at best
        crossing = goals.Crossing("1+3", False, 8_000_000, 0.8)
        run = goals.Site(crossing, "allreduce", 1_000_000, 2, {"out of place": 1.066e6 / 0.75}, {"site 0 out": 2 * 1_066_000, "site 0 in": 3 * 1_066_000},
                         ring_us=1.066e6 * 2, peers_us={"Open MPI default": 1.066e6 * 4, "Open MPI ring": 1.066e6})
        time, ring, peers, counters = goals.sites([run], "", 1052)
        self.assertAlmostEqual(time.worst[1], 0.75)
        self.assertAlmostEqual(ring.worst[1], 1.5)
        self.assertAlmostEqual(counters.values[f"{run.title} site 0 out"], 0)
        self.assertAlmostEqual(counters.worst[1], 0.5)
        self.assertAlmostEqual(peers.worst[1], 0.75)
        self.assertEqual((time.verdict, ring.verdict, peers.verdict, counters.verdict), (goals.MISS, goals.PASS, goals.MISS, goals.MISS))
        self.assertIn("1421 ms; Open MPI default 4264 ms, 3.00 times; Open MPI ring 1066 ms, 0.75 times", next(goals.beside_peers([run])))
        skipped = list(goals.sites([], "only root may", 1500))
        self.assertEqual([one.verdict for one in skipped], [goals.SKIPPED] * 4)
        self.assertIn("only root may", skipped[0].line())

    def test_bytes_that_leave_a_site(self):
        crossing = goals.Crossing("1+3", True, 1, 0.8)
        self.assertEqual([crossing.leaving("allreduce", 400, site) for site in (0, 1)], [400, 400])
        self.assertEqual([crossing.leaving("allgather", 400, site) for site in (0, 1)], [100, 300])
        self.assertEqual([crossing.leaving("reduce_scatter", 400, site) for site in (0, 1)], [300, 100])
        self.assertEqual(goals.Crossing("2x3", False, 1, 0.8).sites, [3, 3])

    def test_ranks_of_sites(self):
        self.assertEqual(goals.Crossing("1+3", False, 1, 0.8).hosts, ["h0", "h1", "h2", "h3"])
        self.assertEqual(goals.Crossing("3+2", True, 1, 0.8).hosts, ["h0", "h3", "h1", "h4", "h2"])


def codec_run(us: list[float], exact_us: list[float], share: float | None = 0.001, wire_bytes: int = 100) -> goals.CodecRun:
    return goals.CodecRun("thc", "direct", us, exact_us, wire_bytes, 0.02, share)


class Codecs(unittest.TestCase):
    RUNS = {2: {"thc": codec_run([10, 12, 11], [50, 48, 44]), "bf16": codec_run([30, 33, 36], [50, 50, 50], -0.03)}}

    def test_times_are_compared_call_by_call(self):
        exact, bf16, counters = goals.codec_links(self.RUNS, "slow links", "")
        self.assertEqual((exact.values, exact.verdict), ({"2 hosts": 4.0}, goals.MISS))
        self.assertEqual((bf16.values, bf16.verdict), ({"2 hosts": 3.0}, goals.PASS))
        self.assertEqual((counters.worst, counters.verdict), (("2 hosts bf16", 0.03), goals.MISS))

    def test_a_counter_without_a_formula_is_no_pass(self):
        runs = {2: {"thc": codec_run([1], [5], None), "bf16": codec_run([3], [5])}}
        counters = list(goals.codec_links(runs, "slow links", ""))[2]
        self.assertEqual(counters.verdict, goals.SKIPPED)
        self.assertIn("at 2 hosts thc", counters.line())
        skipped = list(goals.codec_links({}, "slow links", "only root may"))
        self.assertEqual([one.verdict for one in skipped], [goals.SKIPPED] * 3)
        self.assertIn("only root may", skipped[0].line())

    def test_kernels(self):
        times = {"encode_decode": 1.0, "accumulate": 0.2, "decode": 0.4, "encode": 0.6}
        found = {f"{name}/g={g}/avx2": goals.Bench(1.0, ns, {}) for name, ns in times.items() for g in (127, 63, 31, 15)}
        found["copy"] = goals.Bench(1.0, 0.5, {})
        found["encode_decode/g=15/avx2"] = goals.Bench(1.0, 2.0, {})
        both, sums = goals.codec_kernels(found, "avx2")
        self.assertEqual((both.values["2 ranks"], both.worst, both.verdict), (0.5, ("16 ranks", 0.25), goals.MISS))
        self.assertEqual((sums.values["8 ranks"], sums.verdict), (2.0, goals.MISS))
        self.assertTrue(all(one.verdict == goals.SKIPPED for one in goals.codec_kernels({}, "")))
        stages = goals.seconds_of_stages(codec_run([1], [5], wire_bytes=1448), 1_000_000_000, 4, 2, 1514 * 8, found, "avx2")
        self.assertEqual({name: round(seconds, 6) for name, seconds in stages.items()}, {"link": 1, "encode": 1.2, "accumulate": 0.3, "decode": 0.8})

    def test_what_is_printed(self):
        measured = codec.Measured(64 << 20, {}, "", {200_000_000: self.RUNS})
        text = "\n".join(measured.lines())
        self.assertIn("allreduce of 64M, float sum, hosts joined at 200 Mbit/s", text)
        self.assertIn("codec_bench was not built", text)
        self.assertEqual([(run["hosts"], run["us"]) for run in measured.as_json()["runs"]], [(2, [10, 12, 11]), (2, [30, 33, 36])])

    def test_counters_of_emulated_hosts(self):
        text = ("uplink of site 0: out 12 B, in 34 B, 0 packets dropped\nhost h0: sent 10 B without headers\n"
                "formula: 10 B sent by each host; h0 is -0.05 % off, within 2 %\n")
        uplinks, share = emulated.read_counters(text)
        self.assertEqual(uplinks, {"site 0 out": 12, "site 0 in": 34})
        self.assertAlmostEqual(share, -0.0005)
        self.assertEqual(emulated.read_counters("formula: none: too few\n"), ({}, None))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
