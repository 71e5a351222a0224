"""Advice that is followed; made up."""

NOTE = {"raised": "ResourceExhaustedError", "note": "keras_gpukit: …", "suggested": 200}
SEARCH = {"largest": 200, "predicted": 220, "ending": "time ran out", "took_s": 30.0}


def then(trains: bool) -> dict:
    return {"size": 200, "trains": trains}


GOOD = {
    "out of memory": NOTE | {"then": then(True)},
    "out of memory, jit": NOTE | {"then": then(True)},
    "batch size": SEARCH | {"then": then(True), "twice": then(False)},
}
FALSIFIED = {
    "note": [
        {"out of memory": NOTE | {"then": then(False)}},
        {"out of memory": NOTE | {"note": "", "then": then(True)}},
        {"out of memory": NOTE | {"suggested": None}},
    ],
    "note_jit": [{"out of memory, jit": NOTE | {"then": then(False)}}],
    "largest": [
        {"batch size": SEARCH | {"largest": None}},
        {"batch size": SEARCH | {"then": then(False), "twice": then(False)}},
        {"batch size": SEARCH | {"then": then(True), "twice": then(True)}},
    ],
}
UNJUDGED = {"note": {"out of memory": {"raised": None}}}
