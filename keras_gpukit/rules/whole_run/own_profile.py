"""Whether the script itself profiles far more steps than a profile needs."""

from __future__ import annotations

from keras_gpukit.records.finding import Saving
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptProfile
from keras_gpukit.rules.rule import NO_SCRIPT, Outcome, Rule, figure, seconds
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION

LEAST_STOP_S = 1.0
"""Shortest end of a profile that is worth a finding. Our choice: that of ten steps took 0.1 to 0.3
s, that of 500 steps 1.4 s."""
LONG_S = 10.0
"""From here on a profile is long, even if no call of `fit` is whole within it; our choice."""
SAVED = 0.7
"""Least share of the time that ending the profile takes that is saved. Our choice: a short profile
has to be written as well. More is saved, since steps are faster without it, by how much is not
known."""


class OwnProfile(Rule):
    """The script's own profile covers a whole `fit`, and ending it takes long."""

    code = "own-profile"
    subject = "the script's profiles"
    title = "A TensorFlow profiler recorded the whole script"
    requires = "the profiles of a whole script, as `keras-gpukit run` sees them"
    judges_first_step = True

    def judge(self, summary: RunSummary) -> Outcome:
        script = summary.script
        if script is None:
            return self.abstain(NO_SCRIPT)
        long = [each for each in script.profiles if each.whole_fits or each.recorded_s >= LONG_S]
        if not long:
            return None
        most = max(long, key=lambda each: each.stop_s or 0.0)
        if most.stop_s is None:
            return self.find(
                "warning",
                figure("recorded", most.recorded_s, "s"),
                advice=_ADVICE,
                title=f"{_recorded(most)}, and was never stopped: its profile is lost",
            )
        share = most.stop_s / max(script.wall_s - script.imports_s, most.stop_s, 1e-9)
        if most.stop_s < LEAST_STOP_S or share < WARNING_FRACTION:
            return None
        return self.find(
            "critical" if share >= CRITICAL_FRACTION else "warning",
            figure("recorded", most.recorded_s, "s"),
            figure("stop_took", most.stop_s, "s"),
            advice=_ADVICE,
            saving=Saving(SAVED * most.stop_s, None, script.wall_s, "ending the profile"),
            title=f"{_recorded(most)}; its stop() took {seconds(most.stop_s)} s",
        )


_ADVICE = (
    "profile ten steps: `keras.callbacks.TensorBoard(profile_batch=(20, 30))` alone, or `Profiler`",
    "TensorFlow records one profile at a time: while this one is recorded, that of a callback "
    "fails to start",
)


def _recorded(profile: ScriptProfile) -> str:
    what = {0: f"{seconds(profile.recorded_s)} s", 1: "the whole fit"}.get(
        profile.whole_fits, f"{profile.whole_fits:,} fits"
    )
    return f"A TensorFlow profiler recorded {what} (started at {profile.place})"
