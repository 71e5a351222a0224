"""Published bandwidths of links, in one direction, in bytes a second.

They are peaks: what NCCL reaches is less, and nccl-tests measures it. No latency is among them, as
their makers publish none.
"""

from __future__ import annotations

from keras_gpukit.records.scaling import Link

LINKS: dict[str, Link] = {
    "nvlink-a100": Link(
        300e9, source="NVIDIA A100 data sheet: NVLink, 600 GB/s in both directions together"
    ),
    "nvlink-h100": Link(
        450e9, source="NVIDIA H100 data sheet: NVLink, 900 GB/s in both directions together"
    ),
    "pcie-4": Link(
        32e9, source="NVIDIA A100 data sheet: PCIe Gen4, 64 GB/s in both directions together"
    ),
    "pcie-5": Link(
        64e9, source="NVIDIA H100 data sheet: PCIe Gen5, 128 GB/s in both directions together"
    ),
    "infiniband-hdr": Link(25e9, source="InfiniBand Trade Association roadmap: HDR 4x, 200 Gb/s"),
    "infiniband-ndr": Link(50e9, source="InfiniBand Trade Association roadmap: NDR 4x, 400 Gb/s"),
    "ethernet-10g": Link(1.25e9, source="IEEE 802.3: 10 Gb/s"),
    "ethernet-25g": Link(3.125e9, source="IEEE 802.3: 25 Gb/s"),
    "ethernet-100g": Link(12.5e9, source="IEEE 802.3: 100 Gb/s"),
}
