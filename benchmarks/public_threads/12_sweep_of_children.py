# Source: GitHub, microsoft/nni #2109 "Reload data every trial" and #3294, deephyper/deephyper #154 (each trial makes its
#   dataset again), optuna/optuna #1887.
# The user saw: a sweep over learning rates starts a process per trial, "to get the memory back". A trial trains for less
#   than a second according to its own log, but four of them take most of a minute.
# True cause: each child imports TensorFlow, parses the same 12,000 lines of text into a table again, and traces its own
#   model; training is the smallest part.
# First line of a good tool: (of the parent, or of each child) most of .. s passed before fit: TensorFlow's import .. s
#   and read_table (line) .. s, in each of 4 processes: prepare once and save it (.npz), several trials per process.
# Must not say: nothing slows this run down (as the last word); "no fit was found" for the parent with no word on its
#   children; one child's advice for all without a count; other processes keep the cores busy (they are the children).
# FIXED=1: one process runs all trials with one table. FIT_S is the whole sweep. Kind: child processes.
import json, os, pathlib, subprocess, sys, tempfile, time

FIXED = os.environ.get("FIXED") == "1"
RATES = [0.003, 0.01, 0.03, 0.1]


def read_table(path):
    import numpy as np

    rows = []
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        words = entry["note"].split()
        numbers = [float(word) for word in words if word[0].isdigit()]
        rows.append([entry["price"], len(words), *numbers[:60]])
    table = np.array(rows, "float32")
    return (table - table.mean(0)) / (table.std(0) + 1e-6)


def trial(table, rate):
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((table.shape[1] - 1,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ])
    model.compile(keras.optimizers.SGD(rate), "mse")
    return model.fit(table[:, 1:], table[:, 0], batch_size=256, epochs=3, verbose=0).history["loss"]


if __name__ == "__main__" and len(sys.argv) == 3:  # a trial
    losses = trial(read_table(pathlib.Path(sys.argv[1])), float(sys.argv[2]))
    print(json.dumps(losses))
elif __name__ == "__main__":
    import random

    draw = random.Random(1)
    path = pathlib.Path(tempfile.mkdtemp()) / "offers.jsonl"
    with open(path, "w") as file:
        for _ in range(12_000):
            numbers = [round(draw.gauss(0, 1), 4) + 10 for _ in range(60)]
            note = " ".join(f"{number:.4f} sq" for number in numbers)
            file.write(json.dumps({"price": sum(numbers[:5]), "note": note}) + "\n")
    began = time.time()
    if FIXED:
        table = read_table(path)
        results = {rate: trial(table, rate) for rate in RATES}
    else:
        results = {}
        for rate in RATES:
            child = [sys.executable, __file__, str(path), str(rate)]
            answer = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True).stdout
            results[rate] = json.loads(answer.splitlines()[-1])
    print("FIT_S", round(time.time() - began, 2), file=sys.stderr)
    print("LOSSES", results)
