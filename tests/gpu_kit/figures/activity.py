"""Units that are busy with the work that uses them; made up."""


def busy(sm: float | None, tensor: float, memory: float) -> dict:
    names = ("sm_active_percent", "tensor_active_percent", "memory_bandwidth_percent")
    return dict(zip(names, (sm, tensor, memory), strict=True))


KINDS = {
    "bfloat16": busy(98.0, 90.0, 20.0),
    "float32": busy(99.0, 0.0, 10.0),
    "copies": busy(60.0, 0.0, 85.0),
    "nothing": busy(0.0, 0.0, 0.0),
}


def changed(name: str, row: dict) -> dict:
    return {"kinds": KINDS | {name: row}}


GOOD = {"kinds": KINDS}
FALSIFIED = {
    "sms": [changed("nothing", busy(99.0, 0.0, 0.0)), changed("float32", busy(0.1, 0.0, 0.1))],
    "tensor_cores": [
        changed("float32", busy(99.0, 90.0, 10.0)),
        changed("bfloat16", busy(99.0, 0.9, 10.0)),
    ],
    "bandwidth": [changed("copies", busy(60.0, 0.0, 0.9))],
}
UNJUDGED = {"sms": changed("nothing", busy(None, 0.0, 0.0))}
