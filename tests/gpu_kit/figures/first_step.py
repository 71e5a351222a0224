"""A first step of a minute; made up."""

ROW = {"took_s": 60.0, "jit": True, "reported_s": 59.0, "said": "XLA compiles the first step"}

GOOD = {"resnet": ROW}
FALSIFIED = {
    "reported": [{"resnet": ROW | {"reported_s": 20.0}}, {"resnet": ROW | {"reported_s": None}}],
    "written": [{"resnet": ROW | {"said": "Ended without a summary after step 0."}}],
}
UNJUDGED = {"reported": {"resnet": ROW | {"took_s": None}}}
