"""Tests with the oldest and the newest supported versions, and of the packages of a release.

    nox                    # the important tests: oldest and newest
    nox -s newest-3.12     # with another Python
    nox -s nightly         # with the next Keras and TensorFlow
    nox -s dist            # wheel and sdist: built, checked, installed and tested
    nox -s release         # the same, for a version that changelog and citation have, and its tag

Which versions passed, and when, is in docs/reference/versions.md.
"""

import re
import runpy
import shutil
from pathlib import Path

import nox

nox.options.sessions = ["oldest-3.10", "newest-3.13"]
nox.options.default_venv_backend = "uv|venv"
# TensorBoard imports pkg_resources up to 2.20; setuptools 82 removed it.
OLDEST = "tensorflow==2.18.*", "tensorboard==2.18.*", "keras==3.12.*", "setuptools<82"
# What depends on TensorFlow and Keras; rules and reports depend on neither.
IMPORTANT = (
    *("tests/callbacks", "tests/input", "tests/placement", "tests/memory", "tests/monitoring"),
    *("tests/scripts", "tests/configure", "tests/sensors", "tests/profiling", "tests/realtime"),
)
# What a wheel could lack: data files of the package, its commands, and what is loaded late.
FROM_WHEEL = (
    *("tests/rules", "tests/reports", "tests/records", "tests/saved_runs"),
    *("tests/callbacks/test_callbacks.py", "tests/cli/test_cli.py"),
)
LEFT_OUT = "not (browser or long)"


@nox.session(python=["3.10", "3.11", "3.12"])
def oldest(session: nox.Session) -> None:
    """The oldest supported TensorFlow and Keras."""
    session.install("-e", ".[dev]", *OLDEST)
    session.run("pytest", "-q", "-m", LEFT_OUT, *(session.posargs or IMPORTANT))


@nox.session(python=["3.11", "3.12", "3.13"])
def newest(session: nox.Session) -> None:
    """The newest TensorFlow and Keras; Keras 3.15 needs Python 3.11."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-q", "-m", LEFT_OUT, *(session.posargs or IMPORTANT))


@nox.session(python="3.12")
def nightly(session: nox.Session) -> None:
    """Keras of last night, and the newest TensorFlow, release candidates included."""
    session.install("-e", ".[dev]")
    session.install("--pre", "--upgrade", "tensorflow")
    pip = ("uv", "pip", "uninstall") if session.venv_backend == "uv" else ("pip", "uninstall", "-y")
    session.run_install(*pip, "keras", "keras-nightly", external=session.venv_backend == "uv")
    session.install("--pre", "--no-deps", "keras-nightly")
    folders = session.posargs or (*IMPORTANT, "tests/distributed", "tests/cli/test_doctor.py")
    session.run("pytest", "-q", "-m", LEFT_OUT, *folders)


@nox.session
def dist(session: nox.Session) -> None:
    """Builds and checks wheel and sdist, and runs the sdist's tests on the installed wheel."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build")
    [wheel], [sdist] = (sorted(Path("dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    session.run("twine", "check", "--strict", str(wheel), str(sdist))
    session.install(f"{wheel.resolve()}[dev]")
    folder = Path(session.create_tmp())
    shutil.unpack_archive(sdist.resolve(), folder)
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(unpacked / "keras_gpukit")  # so that only the wheel's is there to be imported
    session.chdir(unpacked)
    session.run("pytest", "-q", "-m", LEFT_OUT, *(session.posargs or FROM_WHEEL))
    session.run("pytest", "-q", "tests/project/test_typed_surface.py")


@nox.session
def release(session: nox.Session) -> None:
    """Does all but the upload: `dist`, and a tag with the version's part of the changelog."""
    version = runpy.run_path("keras_gpukit/version.py")["__version__"]
    changelog = Path("CHANGELOG.md").read_text(encoding="utf-8")
    head = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n"
    notes = re.search(rf"{head}(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if notes is None:
        session.error(f"CHANGELOG.md has no section {version} with its date.")
    if f"\nversion: {version}\n" not in Path("CITATION.cff").read_text(encoding="utf-8"):
        session.error(f"CITATION.cff has another version than {version}.")
    git = ("git", "-C", str(Path.cwd()))
    if session.run(*git, "status", "--porcelain", external=True, silent=True):
        session.error("Commit first: the tag names a commit.")
    dist(session)
    tag = ("tag", "--annotate", "--cleanup=whitespace", f"v{version}", "--message", notes[1])
    session.run(*git, *tag, external=True)
    session.log(f"Ready: `git push origin v{version}` starts the upload.")
