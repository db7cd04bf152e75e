"""The arithmetic of the comparison with Spark's own connector."""

import os
import subprocess
import sys

from benchmarks.measuring import FamilyCpu
from benchmarks.spark.comparing import Seconds
from benchmarks.spark.endpoints import OURS, PEER_ON_KAFKA, PEER_ON_OURS, TARGETS
from benchmarks.spark.micro_batches import FIRST_BATCHES, PHASES, phases_of

ROWS = 1000


def figures() -> Seconds:
    seconds = Seconds(list(TARGETS))
    for target, rounds in {OURS: [2.0, 1.0, 4.0], PEER_ON_OURS: [4.0, 4.0, 1.0], PEER_ON_KAFKA: [1.0]}.items():
        for each in rounds:
            seconds.add("read", target, each, each / 2)
    return seconds


def test_rates_are_medians_with_their_spread():
    ((title, ours, peer_on_ours, peer_on_kafka, *_),) = figures().rates({"read": "reading"}, ROWS)

    assert title == "reading"
    assert ours == "500 (250-1,000)"
    assert peer_on_ours == "250 (250-1,000)"
    assert peer_on_kafka == "1,000 (1,000-1,000)"


def test_more_than_one_means_that_ours_is_faster():
    (row,) = figures().rates({"read": "reading"}, ROWS)

    assert row[-2:] == ["2.00 ✓", "0.50 ✗"]


def test_cpu_time_is_told_for_each_row():
    (row,) = figures().cpu({"read": "reading"}, ROWS)

    assert row == ["reading", "1000.00", "2000.00", "500.00", "2.00 ✓", "0.50 ✗"]


def test_void_rounds_are_told_and_not_counted():
    seconds = figures()
    seconds.add_void("read", PEER_ON_KAFKA)
    seconds.add_void("write", PEER_ON_KAFKA)

    rows = seconds.rates({"read": "reading", "write": "writing"}, ROWS)

    assert rows[0][3] == "1,000 (1,000-1,000; 1 void)"
    assert rows[1] == ["writing", "", "", "1 void", "", ""]


def test_there_are_no_ratios_without_ours():
    seconds = Seconds([PEER_ON_OURS])
    seconds.add("read", PEER_ON_OURS, 1.0, 0.5)

    assert len(seconds.heading("rows/s")) == len(seconds.rates({"read": "reading"}, ROWS)[0]) == 2


def test_a_phase_is_the_median_of_the_batches_of_its_kind_without_the_first():
    warming = [{"numInputRows": 100, "durationMs": {"triggerExecution": 9000}}] * FIRST_BATCHES
    idle = [{"numInputRows": 0, "durationMs": {"triggerExecution": 1, "latestOffset": 1}}] * 9
    counted = [{"numInputRows": 100, "durationMs": {"triggerExecution": each, "addBatch": 7}} for each in (30, 10, 20)]

    found = dict(zip((*PHASES, "batches"), phases_of(warming + idle + counted, is_idle=False), strict=True))

    assert found["triggerExecution"] == "20"
    assert found["addBatch"] == "7"
    assert found["latestOffset"] == ""
    assert found["batches"] == "3"


def test_the_cpu_of_a_child_that_ends_is_not_taken_from_the_others():
    work = "sum(range(20_000_000)); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        cpu = FamilyCpu(os.getpid())
        child.communicate(b"\n")

    assert cpu.seconds() >= 0


def test_the_cpu_of_a_child_that_has_come_is_counted():
    cpu = FamilyCpu(os.getpid())
    work = "sum(range(20_000_000)); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert cpu.seconds() > 0.05
        child.communicate(b"\n")
