"""Training on several devices, processes and machines: a wing of its own.

The rest of the package enters it by these modules only; a linter enforces it:

- `strategies` and `clusters`: what `configure_gpus` chooses and makes, and from which environment;
- `repairs`: for a script that makes its strategy itself;
- `worker_times`: what a watched `fit` of several workers measures;
- `launching`: the commands `launch` and `input-service`;
- `split_model`: the function of that name.
"""
