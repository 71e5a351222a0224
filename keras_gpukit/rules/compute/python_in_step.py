"""Whether Python functions take much of each step."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import own_step_s
from keras_gpukit.rules.rule import Outcome, Rule, percent
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, severity


class PythonInStep(Rule):
    """`tf.py_function` and `tf.numpy_function` in the model: the GPU waits for the host."""

    code = "python-in-step"
    subject = "Python in steps"
    title = "Python functions take much of each step"
    requires = "a profile of the steps"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the functions' time with a tenth of the steps' own time."""
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or profile.python_s is None:
            return self.abstain()
        share = min(profile.python_s / own_s, 1.0)
        if share < WARNING_FRACTION:
            return None
        most = share
        if profile.devices:  # their inputs and results are copied, and launches begin again
            most = max(share, 1 - profile.parts_s.get("device compute", 0.0) / own_s)
        saving = of_compute(summary, most, low=share, basis="Python functions in a profile")
        return self.find(
            severity(saving, summary),
            percent("of_a_step_in_Python_functions", share),
            advice=(
                "Write the function with TensorFlow operations, which run on the GPU",
                "Or call it in the input, where batches are made while the GPU computes: "
                "`ds.map(lambda x, y: (tf.numpy_function(f, [x], tf.float32), y))`",
            ),
            saving=saving,
            title=f"Python functions take {100 * share:.0f} % of each step, and the GPU waits"
            if profile.devices
            else f"Python functions take {100 * share:.0f} % of each step",
        )
