"""What setting the GPUs up consists of: actions, or the causes for which no GPU is used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Action:
    """One thing to be set.

    Attributes:
        kind: What is set, such as "memory_growth".
        value: To what.
        reason: Why, in plain words.
        gpus: Indices of the GPUs concerned, where it is not all.
        name: The environment variable, where it is one.
        must_come_first: Whether TensorFlow refuses or ignores it once its devices are started.
    """

    kind: str
    value: Any
    reason: str
    gpus: tuple[int, ...] = ()
    name: str | None = None
    must_come_first: bool = False

    def __str__(self) -> str:
        target = self.name or self.kind
        where = f" of GPU {', '.join(map(str, self.gpus))}" if self.gpus else ""
        return f"{target}{where} = {self.shown}"

    @property
    def shown(self) -> Any:
        """The value, a strategy that was given by its class' name."""
        return type(self.value).__name__ if self.kind == "given_strategy" else self.value

    def to_dict(self) -> dict[str, Any]:
        """Returns the action as plain data."""
        # Only here: checking settings must load nothing that a script might have.
        from keras_gpukit.records.codec import to_dict

        return to_dict(replace(self, value=self.shown))


@dataclass(frozen=True)
class Cause:
    """One reason why no GPU is used.

    Attributes:
        code: Stable name, such as "no_driver".
        text: What is the case.
        advice: What to do about it; empty where nothing is wrong.
    """

    code: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".strip()
