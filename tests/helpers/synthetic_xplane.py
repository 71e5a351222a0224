"""Profiles as a GPU would give them, made up from the published XPlane schema.

No GPU recorded them: they have the planes, lines, names and figures that TensorFlow's CUPTI tracer
writes (`cupti_collector.cc`), with times that are known because they are made up.
"""

from __future__ import annotations

from pathlib import Path

from tensorflow.tsl.profiler.protobuf import xplane_pb2

STEPS = 8
STEP_MS = 10.0
GEMM = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64"
ADD = (
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<"
    "Eigen::TensorMap<Eigen::Tensor<float, 1, 1, int>, 16, Eigen::MakePointer>, "
    "Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_sum_op<float, float>>>>>"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
COMPUTE, COPIES = "Stream #14(Kernel)", "Stream #15(MemcpyH2D,MemcpyD2H)"


class Capture:
    """A profile in the making; times are in milliseconds."""

    def __init__(self) -> None:
        self.space = xplane_pb2.XSpace(hostnames=["made-up"])
        self.host = Plane(self.space, "/host:CPU")

    def gpu(self, index: int = 0) -> Plane:
        plane = Plane(self.space, f"/device:GPU:{index}")
        plane.property(compute_cap_major=9, compute_cap_minor=0)
        return plane

    def step(self, number: int, begin: float, duration: float) -> None:
        self.host.event("python", "train", begin, duration, step_num=number, _r=1)

    def save(self, folder: Path, name: str = "made-up") -> Path:
        path = folder / "plugins" / "profile" / "run" / f"{name}.xplane.pb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.space.SerializeToString())
        return path


class Plane:
    """What one source recorded."""

    def __init__(self, space, name: str) -> None:
        self.plane = space.planes.add(name=name)
        self._lines: dict[str, object] = {}

    def event(self, line: str, name: str, begin: float, duration: float, /, **stats) -> None:
        if line not in self._lines:
            self._lines[line] = self.plane.lines.add(name=line, timestamp_ns=1000)
        event = self._lines[line].events.add(
            metadata_id=self._id(self.plane.event_metadata, name),
            offset_ps=round(begin * 1e9),
            duration_ps=round(duration * 1e9),
        )
        self._add_stats(event.stats, stats)

    def property(self, **stats) -> None:
        self._add_stats(self.plane.stats, stats)

    def _add_stats(self, into, stats) -> None:
        for name, value in stats.items():
            stat = into.add(metadata_id=self._id(self.plane.stat_metadata, name))
            if isinstance(value, str):  # as TensorFlow writes texts: as names of figures
                stat.ref_value = self._id(self.plane.stat_metadata, value)
            elif isinstance(value, float):
                stat.double_value = value
            else:
                stat.int64_value = value

    @staticmethod
    def _id(metadata, name: str) -> int:
        for key, known in metadata.items():
            if known.name == name:
                return key
        key = len(metadata) + 1
        metadata[key].id, metadata[key].name = key, name
        return key


def one_after_the_other(gpus: int = 1) -> Capture:
    """Each step waits for its batch, copies it, launches, and computes; nothing overlaps.

    Of a step's 10 ms: wait 4, launch 0.2, copy 0.5, GEMM 3, addition 1 of which 0.5 alongside the
    GEMM, exchange 1 of which 0.5 alongside the addition, copy back 0.1.
    """
    capture = Capture()
    planes = [capture.gpu(index) for index in range(gpus)]
    in_step = "StatefulPartitionedCall/model/dense/"
    kernel = {"kernel_details": "regs:32 grid:8,1,1 block:128,1,1 occ_pct:50"}
    to_device = "kind_src:pinned kind_dst:device size:1000000 dest:0 async:1"
    to_host = "kind_src:device kind_dst:pinned size:4 dest:0 async:1"
    for number in range(STEPS):
        at = number * STEP_MS
        capture.step(number, at, 9.8)
        capture.host.event("python", "IteratorGetNextOp::DoCompute", at, 4.0)
        for index, gpu in enumerate(planes):
            launched = {"correlation_id": 100 * number + index}
            capture.host.event("python", "cuLaunchKernel", at + 4.1, 0.2, **launched)
            gpu.event(COPIES, "MemcpyH2D", at + 4.5, 0.5, memcpy_details=to_device)
            by = {"tf_op": f"{in_step}MatMul:MatMul"}
            gpu.event(COMPUTE, GEMM, at + 5, 3, **by, **kernel, **launched)
            gpu.event("Stream #16(Kernel)", ADD, at + 7.5, 1, tf_op=f"{in_step}Add:AddV2", **kernel)
            gpu.event("Stream #17(Kernel)", NCCL, at + 8, 1, **kernel)
            gpu.event(COPIES, "MemcpyD2H", at + 9, 0.1, memcpy_details=to_host)
    return capture


def gpu_behind_the_host() -> Capture:
    """The host waits 6 of 10 ms, but the GPU works off what was launched before.

    It computes 8 of 10 ms, from 7 ms on until 5 ms into the next step, so that 1 ms of the wait is
    exposed, and 1 ms is idle.
    """
    capture = Capture()
    gpu = capture.gpu()
    for number in range(STEPS):
        at = number * STEP_MS
        capture.step(number, at, 9.5)
        capture.host.event("python", "IteratorGetNextOp::DoCompute", at, 6.0)
        capture.host.event("python", "cuLaunchKernel", at + 6.2, 0.1, correlation_id=number)
        gpu.event(COMPUTE, GEMM, at + 7, 8, correlation_id=number, kernel_details="occ_pct:50")
    return capture
