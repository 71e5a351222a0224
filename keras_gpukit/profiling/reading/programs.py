"""Programs that XLA compiled, which a profile contains: TensorFlow operation of each instruction.

A fused kernel is named after its instruction. The instruction's metadata holds the name and the
type of the TensorFlow operation that it was made of, or of the last one of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from keras_gpukit.profiling.reading.schema import program_message

PLANE = b"/host:metadata"
Programs = Mapping[str, Mapping[str, str]]
"""Operations ("name:type") by instruction, by the program's name."""


def programs_of(space: Any) -> Programs:
    """Returns the operations of all programs in a profile; a damaged program has none."""
    programs: dict[str, dict[str, str]] = {}
    for plane in space.planes:
        if plane.name != PLANE:
            continue
        for entry in plane.event_metadata:
            # The name ends with the program's number: "a_inference_one_step_7__.108(246274)".
            name = entry.value.name.decode("utf-8", "replace").rpartition("(")[0]
            for stat in entry.value.stats:
                programs.setdefault(name, {}).update(_operations(stat.bytes_value))
    return programs


def _operations(data: bytes) -> dict[str, str]:
    try:
        module = program_message().FromString(data).module
    except DecodeError:
        return {}
    return {
        instruction.name.decode("utf-8", "replace"): (
            f"{metadata.op_name.decode('utf-8', 'replace')}"
            f":{metadata.op_type.decode('utf-8', 'replace')}"
        )
        for computation in module.computations
        for instruction in computation.instructions
        if (metadata := instruction.metadata).op_name
    }
