"""Writes TensorBoard event files without TensorFlow's summary writers.

Summary writers use TensorFlow's runtime, and monitoring must not affect it. Event files are plain
protobuf records, each framed by its length and checksums. TensorBoard's own package can frame them
too, but it computes checksums in Python: 0.1 ms for a kilobyte of text.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from keras_gpukit.records import names
from keras_gpukit.records.steps import Phase
from keras_gpukit.saved_runs.folding.tags import tags_of
from keras_gpukit.saved_runs.writing.writer import Record, Writer
from keras_gpukit.whole_files import AppendFile


def _of_every_gpu(figure: str) -> tuple[str]:
    return (names.gpu_tag(r"\d+", figure),)


# Layout of the Custom Scalars tab: titles of groups, and in each group the charts with their tags.
LAYOUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Is the GPU waiting for data?": {
        "input stall (%)": (names.INPUT_STALL,),
        "step time and input wait (ms)": (names.STEP_TIME, names.INPUT_WAIT, names.BETWEEN_STEPS),
        "examples per second": (names.EXAMPLE_RATE,),
        "batches buffered": (names.BUFFERED_BATCHES,),
    },
    "GPUs": {
        "utilization (%)": _of_every_gpu("utilization_percent"),
        "power (W)": _of_every_gpu("power_watts"),
        "temperature (°C)": _of_every_gpu("temperature_celsius"),
        "clock (MHz)": _of_every_gpu("sm_clock_mhz"),
        "throttled": _of_every_gpu("throttled"),
    },
    "Memory": {
        "allocated (bytes)": tuple(
            names.memory_tag(".*", figure) for figure in names.MEMORY_FIGURES
        ),
        "whole device (bytes)": _of_every_gpu("memory_used_bytes"),
    },
    "Host": {
        "CPU (%)": (names.HOST_CPU, names.HOST_PROCESS_CPU),
        "memory (bytes)": (names.HOST_MEMORY,),
        "disk reads (bytes/s)": (names.HOST_DISK_READS,),
        "overhead (µs per step)": (names.OVERHEAD,),
    },
}


class EventFile(Writer):
    """Writes the figures of records as scalars, and texts, to one TensorBoard event file.

    Windows of a validation within the run have no figures there.

    Args:
        folder: Folder of the file.

    Raises:
        OSError: If the folder cannot be written.
    """

    _made = 0

    def __init__(self, folder: Path) -> None:
        # This imports the protobufs without TensorFlow.
        from tensorboard.compat.proto import event_pb2, summary_pb2, types_pb2

        self._event, self._summary = event_pb2.Event, summary_pb2
        self._string_type = types_pb2.DT_STRING
        self._phase: Phase | None = None
        EventFile._made += 1
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
        self._file = AppendFile(folder / f"{name}.{os.getpid()}.{EventFile._made}.gpukit")
        version = self._event(wall_time=time.time(), file_version="brain.Event:2")
        # Written together with the first values, since a short run waits for each write.
        self._head = _framed((version, self._layout_event()))

    def write_records(self, records: Iterable[Record], /) -> None:
        """Writes what TensorBoard shows of records.

        Raises:
            OSError: If the disk does not accept them; the file remains readable.
        """
        events = [event for each in records if (event := self._event_of(each)) is not None]
        if events:
            self._write(events)

    def close(self) -> None:
        """Closes the file."""
        self._write(())
        self._file.close()

    def _event_of(self, line: Record) -> Any:
        record = line.record
        if line.kind in ("run", "steps"):
            self._phase = self._phase or getattr(record, "phase", None)
        if line.kind == "steps" and record.phase != self._phase:
            return None
        by_tag = tags_of(line.kind, record)
        if not by_tag:
            return None
        return self._event(
            wall_time=record.time_s if line.kind == "steps" else line.time_s,
            step=line.step or 0,
            summary=self._summary.Summary(
                value=[self._value(tag, value) for tag, value in by_tag.items()]
            ),
        )

    def _value(self, tag: str, value: float | str) -> Any:
        if isinstance(value, str):
            return self._bytes_value(tag, "text", value.encode())
        return self._summary.Summary.Value(tag=tag, simple_value=value)

    def _bytes_value(self, tag: str, plugin: str, data: bytes) -> Any:
        value = self._summary.Summary.Value(tag=tag)
        value.metadata.plugin_data.plugin_name = plugin
        value.metadata.data_class = self._summary.DATA_CLASS_TENSOR
        value.tensor.dtype = self._string_type
        value.tensor.string_val.append(data)
        return value

    def _layout_event(self) -> Any:
        value = self._bytes_value("custom_scalars__config__", "custom_scalars", _layout())
        return self._event(wall_time=time.time(), summary=self._summary.Summary(value=[value]))

    def _write(self, events: Iterable[Any]) -> None:
        head, self._head = self._head, b""
        self._file.write(head + _framed(events))


@functools.cache
def _layout() -> bytes:
    """Returns the layout as a protobuf, as TensorBoard's plugin reads it."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    layout = layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=title,
                chart=[
                    layout_pb2.Chart(
                        title=chart,
                        multiline=layout_pb2.MultilineChartContent(
                            tag=[f"^{tag}$" for tag in tags]
                        ),
                    )
                    for chart, tags in charts.items()
                ],
            )
            for title, charts in LAYOUT.items()
        ]
    )
    serialized: bytes = layout.SerializeToString()
    return serialized


def _framed(events: Iterable[Any]) -> bytes:
    """Returns events as records in the format of TFRecord files and event files."""
    parts: list[bytes] = []
    for event in events:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        parts += (length, _masked_checksum(length), data, _masked_checksum(data))
    return b"".join(parts)


def _masked_checksum(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)
