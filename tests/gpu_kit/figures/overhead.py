"""Rounds of fits with a constant overhead; made up."""


def rounds(ratio: float, own_us: float = 10.0, noise: float = 0.001) -> dict:
    """Fits of 100 steps of 1 ms, longer by a ratio if monitored."""
    swing = [noise * (number % 5 - 2) for number in range(20)]
    return {
        "steps": 100,
        "own_us": [own_us] * 20,
        "bare_s": [0.1] * 20,
        "bare_again_s": [0.1] * 20,
        "monitored_s": [0.1 * (ratio + each) for each in swing],
    }


GOOD = {"long step": rounds(1.004), "short step": rounds(1.015)}
FALSIFIED = {
    "five_ms": [{"long step": rounds(1.02)}],
    "half_ms": [{"short step": rounds(1.08)}],
    "own_account": [{"short step": rounds(1.03)}],
}
UNJUDGED = {
    "five_ms": {"long step": rounds(1.01, noise=0.02)},
    "half_ms": {"short step": {"error": "it failed"}},
}
