"""Rounds of fits with a constant overhead; made up."""


def rounds(ratio: float, noise: float = 0.001) -> dict:
    """Fits of 100 steps of 1 ms, longer by a ratio if monitored."""
    swing = [noise * (number % 5 - 2) for number in range(20)]
    return {
        "steps": 100,
        "bare_s": [0.1] * 20,
        "bare_again_s": [0.1] * 20,
        "monitored_s": [0.1 * (ratio + each) for each in swing],
    }


GOOD = {"long step": rounds(1.004), "short step": rounds(1.015)}
FALSIFIED = {
    "long step": [{"long step": rounds(1.02)}],
    "short step": [{"short step": rounds(1.08)}],
}
UNJUDGED = {
    "long step": {"long step": rounds(1.01, noise=0.02)},
    "short step": {"short step": {"error": "it failed"}},
}
