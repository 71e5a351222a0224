"""Reading what nvidia-smi prints."""

from __future__ import annotations

from benchmarks.gpu.nvidia_smi import mean, parse_dmon, parse_query

DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem
# Idx      W      C      C      %      %
    0    310     45      -     98     40
# gpu    pwr  gtemp  mtemp     sm    mem
# Idx      W      C      C      %      %
    0    330     47      -     96     41
    0    33
"""


def test_dmon_is_read_by_its_columns_also_if_they_repeat_and_the_end_is_cut_off():
    table = parse_dmon(DMON)

    assert len(table) == 2
    assert (mean(table, "sm"), mean(table, "pwr")) == (97.0, 320.0)


def test_what_nvidia_smi_does_not_report_is_unknown():
    assert mean(parse_dmon(DMON), "mtemp") is None
    assert mean([], "sm") is None


def test_a_query_is_read_by_its_columns():
    table = parse_query("310.5, 1980, 4096, 0x0000000000000004\n311.5, [N/A], 4096, 0x0\n31")

    assert mean(table, "power.draw") == 311.0
    assert mean(table, "clocks.sm") == 1980.0
    assert table[0]["clocks_event_reasons.active"] == "0x0000000000000004"
