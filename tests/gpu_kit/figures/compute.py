"""It claims nothing."""

GOOD: dict = {}
FALSIFIED: dict = {}
UNJUDGED: dict = {}
