"""One watched call of `fit`, `evaluate` or `predict`: its steps, first step, ticks and end."""
