"""Slurm's short notations, written out."""

from __future__ import annotations

import pytest

from keras_gpukit.distributed.clusters.slurm import expand_nodes, expand_tasks, node_of_each_task


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("gpu-[08-10,12]", ("gpu-08", "gpu-09", "gpu-10", "gpu-12")),
        ("a,b[1,3],c.example.org", ("a", "b1", "b3", "c.example.org")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("r[1-2]-ib", ("r1-ib", "r2-ib")),
    ],
)
def test_a_node_list_is_written_out(nodes, names):
    assert expand_nodes(nodes) == names


@pytest.mark.parametrize("nodes", ["", ",", "n[1-2", "n1-2]", "n[2-1]", "n[a]", "n1,,n2", "n1,"])
def test_what_is_no_node_list_is_refused(nodes):
    with pytest.raises(ValueError):
        expand_nodes(nodes)


def test_tasks_per_node_are_written_out():
    assert expand_tasks("2(x3),1") == (2, 2, 2, 1)
    for wrong in ("", "2(x3", "two", "2,"):
        with pytest.raises(ValueError):
            expand_tasks(wrong)


@pytest.mark.parametrize(
    ("plane", "nodes"),
    [(100, (0, 0, 0, 1, 2, 2)), (1, (0, 1, 2, 0, 2, 0)), (2, (0, 0, 1, 2, 2, 0))],
)
def test_tasks_are_placed_in_blocks_cyclically_or_in_planes(plane, nodes):
    assert node_of_each_task((3, 1, 2), plane) == nodes
