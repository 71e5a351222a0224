"""Setup of the GPUs: actions to take, or causes why no GPU is used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Action:
    """One setting to apply.

    Attributes:
        gpus: Indices of the GPUs concerned; empty for all.
        name: Name of the environment variable; None for other settings.
        must_come_first: Whether TensorFlow refuses or ignores the setting once its devices are
            started.
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
        """Value to display. A strategy that the user gave is shown by the name of its class."""
        return type(self.value).__name__ if self.kind == "given_strategy" else self.value

    def to_dict(self) -> dict[str, Any]:
        """Returns the action as plain data."""
        # Imported here: checking settings must not load msgspec, since a script may notice it.
        from keras_gpukit.records.codec import to_dict

        return to_dict(replace(self, value=self.shown))


@dataclass(frozen=True)
class Cause:
    """One reason why no GPU is used.

    Attributes:
        code: Stable name, such as "no_driver".
        advice: Recommended action; empty if nothing is wrong.
    """

    code: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.advice}".strip()
