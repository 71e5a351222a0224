"""A run of half a minute with one capture; made up."""

CAPTURE = {"held_up_ms": 12.0, "stall": 0.5, "live": 0.49}


def run(*captures: dict, automatic: bool = True) -> dict:
    shared = {"automatic": automatic, "reported": 0.5, "wall_s": 30.0}
    shared["none_because"] = None
    return {"automatic": shared | {"captures": list(captures)}}


GOOD = run(CAPTURE)
FALSIFIED = {
    "one": [run(), run(CAPTURE, CAPTURE), run(CAPTURE | {"held_up_ms": 900.0})],
    "stall": [run(CAPTURE | {"stall": 0.6})],
}
UNJUDGED = {"one": run(automatic=False), "stall": run(CAPTURE | {"stall": None})}
