"""The tab's server side, asked through TensorBoard's own application."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import sysconfig
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from helpers.processes import wait_for as wait_until
from helpers.recorded_profiles import write_profile
from helpers.recorded_runs import run_lines, write_lines
from tensorboard import program
from tensorboard.backend import application
from tensorboard.plugins.core import core_plugin
from werkzeug.test import Client

from keras_gpukit.records import CaptureRecord, find_run_files
from keras_gpukit.records import names as search
from keras_gpukit.reports import html
from keras_gpukit.tensorboard_plugin import GPUKitLoader, run_folders
from keras_gpukit.tensorboard_plugin.plugin import MODULES
from keras_gpukit.tensorboard_plugin.run_folders import trace_url

DEADLINE_S = 60
SECRET = "no-one-may-read-this"
INSTALLED = (sysconfig.get_path("stdlib"), sys.prefix, str(Path(run_folders.__file__).parents[1]))


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch):
    monkeypatch.setattr(run_folders, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(run_folders, "REST", 0)


class Tab:
    """TensorBoard with this one plugin."""

    def __init__(self, *options: str) -> None:
        tensorboard = program.TensorBoard(plugins=[core_plugin.CorePluginLoader(), GPUKitLoader])
        tensorboard.configure(argv=["tensorboard", *options])
        self.prefix = tensorboard.flags.path_prefix
        self.client = Client(
            application.TensorBoardWSGIApp(tensorboard.flags, tensorboard.plugin_loaders)
        )

    def get(self, path: str, **options):
        return self.client.get(f"{self.prefix}/data/{path}", **options)

    def listing(self) -> dict:
        return self.get("plugins_listing").json["gpukit"]

    def state(self, query: str = "") -> dict:
        return self.get(f"plugin/gpukit/state{query}").json

    def report(self, query: str = ""):
        return self.get(f"plugin/gpukit/report{query}")

    def folders(self) -> dict[str, str]:
        """Ids by name."""
        return {folder["name"]: folder["id"] for folder in self.state()["folders"]}

    def wait_for(self, *names: str) -> dict[str, str]:
        return wait_until(lambda: sorted(self.folders()) == sorted(names) and self.folders())


@contextlib.contextmanager
def opened_files():
    """The real paths of the files and folders that this process opens meanwhile."""
    opened: set[str] = set()
    noting = True

    def note(event, arguments):
        if noting and event in ("open", "os.listdir", "os.scandir"):
            path = arguments[0]
            if not isinstance(path, int):
                opened.add(os.path.realpath(os.fsdecode(path)))

    sys.addaudithook(note)  # it cannot be removed
    yield opened
    noting = False


def write_run(log_dir: Path) -> Path:
    return write_lines(log_dir, run_lines(10))


def tab_on(logdir: Path, *options: str) -> Tab:
    return Tab("--logdir", str(logdir), *options)


class TestTheTab:
    def test_is_not_offered_where_there_is_no_run_and_tells_how_to_begin(self, tmp_path):
        (tmp_path / "mine" / "gpukit").mkdir(parents=True)
        tab = tab_on(tmp_path)
        assert tab.listing()["enabled"] is False
        page = tab.report()
        assert page.status_code == 200
        assert "gpukit.Monitor(" in page.text
        assert str(tmp_path) in page.text
        plotly = tab.get("plugin/gpukit/plotly.js")  # is fetched once and kept
        assert plotly.cache_control.max_age >= 3600
        assert len(plotly.data) > 1_000_000

    @pytest.mark.parametrize("prefix", ["", "/behind/a/proxy"])
    def test_stands_beside_the_others_and_has_all_parts_below_the_path_prefix(
        self, tmp_path, prefix
    ):
        write_run(tmp_path)
        tab = tab_on(tmp_path, "--path_prefix", prefix)
        listing = tab.listing()
        assert (listing["enabled"], listing["tab_name"]) == (True, "GPU Kit")
        module = listing["loading_mechanism"]["module_path"]
        assert module == f"{prefix}/data/plugin/gpukit/index.js"
        kinds = {"tab.css": "css", **dict.fromkeys((*MODULES, "plotly.js"), "javascript")}
        for name, kind in kinds.items():
            answer = tab.get(f"plugin/gpukit/{name}")
            assert answer.status_code == 200
            assert kind in answer.content_type
        wait_until(tab.folders)
        assert "<h1" in tab.report().text


class TestWhichRuns:
    def test_tensorboard_may_be_started_on_the_folder_that_is_written(self, tmp_path):
        write_run(tmp_path / "mine")
        tab = tab_on(tmp_path / "mine" / "gpukit")
        tab.wait_for(".")
        assert "mine" in tab.report().text

    def test_several_can_be_picked_or_seen_side_by_side(self, tmp_path):
        for name in ("adam", "sgd", "deep/down/rmsprop"):
            write_run(tmp_path / name)
        tab = tab_on(tmp_path)
        ids = tab.wait_for("All 3 folders", "adam", "sgd", "deep/down/rmsprop")
        assert next(iter(ids)) == "All 3 folders"
        together = tab.report(f"?folder={ids['All 3 folders']}").text
        alone = tab.report(f"?folder={ids['sgd']}").text
        assert all(name in together for name in ("adam", "sgd", "rmsprop"))
        assert "adam" not in alone
        assert all(f'href="report?folder={ids[name]}#run-' in together for name in list(ids)[1:])
        assert "report?folder=" not in alone
        assert "rmsprop" not in alone

    def test_several_workers_are_several_runs_of_one_folder(self, tmp_path):
        for worker in range(2):
            record = write_lines(tmp_path / "big", run_lines(10), name=f"run-{worker}")
        write_run(tmp_path / "small")
        tab = tab_on(tmp_path)
        big = tab.wait_for("All 2 folders", "big", "small")["big"]
        page, stamp = tab.report(f"?folder={big}").text, tab.state(f"?folder={big}")["stamp"]
        assert all(name in page for name in ("big, worker 0", "big, worker 1"))
        record.write_bytes(record.read_bytes() * 2)
        assert tab.state(f"?folder={big}")["stamp"] != stamp
        assert "big, worker 1 #2" in tab.report(f"?folder={big}").text

    def test_several_log_directories_keep_their_names(self, tmp_path):
        write_run(tmp_path / "one" / "mine")
        write_run(tmp_path / "two" / "mine")
        tab = Tab("--logdir_spec", f"a:{tmp_path}/one,{tmp_path}/two,c:gs://bucket/three")
        tab.wait_for("a: mine", f"{tmp_path}/two: mine")

    def test_a_log_directory_may_come_later(self, tmp_path):
        tab = tab_on(tmp_path / "later")
        assert tab.listing()["enabled"] is False
        before = tab.state()["stamp"]
        write_run(tmp_path / "later" / "mine")
        tab.wait_for("mine")
        assert tab.listing()["enabled"] is True
        assert tab.state()["stamp"] != before

    def test_a_folder_may_go_while_it_is_served(self, tmp_path):
        record = write_run(tmp_path / "mine")
        write_run(tmp_path / "other")
        tab = tab_on(tmp_path)
        gone = wait_until(lambda: tab.folders().get("mine"))
        record.unlink()
        tab.wait_for("other")
        answer = tab.report(f"?folder={gone}")
        assert answer.status_code == 404
        assert "not here" in answer.text
        named = tab.report("?missing")  # by an address, perhaps before they are found
        assert (named.status_code, named.text) == (200, answer.text)

    def test_a_profile_of_another_tool_is_shown_where_no_run_shows_it(self, tmp_path):
        write_run(tmp_path / "mine")
        write_profile(tmp_path / "mine" / "train", "launch_spe8")
        write_profile(tmp_path / "other" / "train", "launch_spe8")
        tab = tab_on(tmp_path)
        assert tab.listing()["enabled"] is True
        ids = tab.wait_for("All 2 folders", "mine", "other/train")
        page, stamp = (read(f"?folder={ids['other/train']}") for read in (tab.report, tab.state))
        assert "The GPU waits for the host to launch its kernels" in page.text
        write_profile(tmp_path / "other" / "train", "transformer", "later")
        asked = f"?folder={tab.wait_for(*ids)['other/train']}"
        wait_until(lambda: tab.state(asked)["stamp"] != stamp["stamp"])

    def test_a_remote_log_directory_is_left_to_others(self):
        tab = Tab("--logdir", "gs://bucket/logs")
        assert tab.listing()["enabled"] is False
        assert "only those are read" in tab.report().text

    def test_names_that_are_no_text_can_be_picked(self, tmp_path):
        write_run(tmp_path / os.fsdecode(b"caf\xe9"))
        write_run(tmp_path / "plain")
        tab = tab_on(tmp_path)
        ids = tab.wait_for("All 2 folders", "caf�", "plain")
        assert tab.report(f"?folder={ids['caf�']}").status_code == 200


class TestLinksToTraces:
    """From a report in the tab to its captures in the Profile tab."""

    PATH = "gpukit/plugins/profile/2026_step_34/vm.local.xplane.pb"
    CAPTURE = CaptureRecord("2026_step_34", "steps", "step 34", 34, 10, 1.7e9, 1.0, 0.0, path=PATH)

    def test_a_capture_that_is_there_leads_to_its_trace(self, tmp_path):
        log_dir = tmp_path / "a b"
        (log_dir / self.PATH).parent.mkdir(parents=True)
        (log_dir / self.PATH).touch()
        run = "a%20b%2Fgpukit%2F2026_step_34"
        address = f"../../../?run={run}&tag=trace_viewer%40&host=vm.local#profile"
        assert trace_url(tmp_path, log_dir, self.CAPTURE) == address
        alone = trace_url(log_dir, log_dir, self.CAPTURE)
        assert alone.startswith("../../../?run=gpukit%2F2026_step_34&")
        assert trace_url(None, log_dir, self.CAPTURE) is None
        assert trace_url(tmp_path, log_dir, replace(self.CAPTURE, path=None)) is None
        assert trace_url(tmp_path, tmp_path / "removed", self.CAPTURE) is None


class TestFreshness:
    def test_a_line_more_is_a_new_stamp_and_a_new_page(self, tmp_path):
        write_run(tmp_path / "mine")
        tab = tab_on(tmp_path)
        tab.wait_for("mine")
        stamp, page = tab.state()["stamp"], tab.report().text
        assert "mine" in page  # one folder is shown without a choice
        assert (tab.state()["stamp"], tab.report().text) == (stamp, page)
        write_run(tmp_path / "mine")
        assert tab.state()["stamp"] != stamp
        assert tab.report().text != page

    def test_an_unchanged_report_is_not_made_again(self, tmp_path, monkeypatch):
        made = []
        monkeypatch.setattr(html, "render", lambda report, **_: made.append(report) or "<h1>r</h1>")
        write_run(tmp_path / "mine")
        tab = tab_on(tmp_path)
        tab.wait_for("mine")
        assert {tab.report().text for _ in range(3)} == {"<h1>r</h1>"}
        assert len(made) == 1
        write_lines(tmp_path / "mine", [(1.0, None, "note", {})])
        tab.report()
        assert len(made) == 2


class TestNothingOutsideTheLogDirectory:
    @pytest.fixture
    def outside(self, tmp_path) -> Path:
        """A run that is not under the log directory."""
        outside = tmp_path / "outside"
        write_run(outside / SECRET)
        return outside

    @pytest.fixture
    def logdir(self, tmp_path) -> Path:
        write_run(tmp_path / "logs" / "mine")
        return tmp_path / "logs"

    def test_only_ids_that_were_given_out_are_answered(self, logdir, outside):
        elsewhere = tab_on(outside).wait_for(SECRET)
        tab = tab_on(logdir)
        tab.wait_for("mine")
        paths = ["..", "../outside", "%2e%2e%2foutside", "%252e%252e%252foutside"]
        paths += ["mine/../../outside", "/etc/passwd", "/etc", "C:\\", "file:///etc/passwd"]
        paths += ["mine%00", "%00", "mine", "%ff%fe", "", elsewhere[SECRET]]
        for asked in paths:
            answer = tab.report(f"?folder={asked}")
            assert answer.status_code == 404, asked
            assert SECRET not in answer.text
            assert "root:" not in answer.text
        files = "../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "static/index.js", "plugin.py"
        assert {tab.get(f"plugin/gpukit/{path}").status_code for path in files} == {404}

    def test_links_are_not_followed(self, logdir, outside):
        foreign = outside / SECRET
        (logdir / "link").symlink_to(foreign)
        (logdir / "of gpukit").mkdir()
        (logdir / "of gpukit" / "gpukit").symlink_to(foreign / "gpukit")
        (logdir / "of a record" / "gpukit").mkdir(parents=True)
        record = logdir / "of a record" / "gpukit" / "run.jsonl"
        record.symlink_to(foreign / "gpukit" / "run.jsonl")
        profiles = foreign / "gpukit" / "plugins" / "profile" / SECRET
        profiles.mkdir(parents=True)
        (profiles / "host.xplane.pb").write_bytes(b"")
        (logdir / "mine" / "gpukit" / "plugins").symlink_to(profiles.parent.parent)
        tab = tab_on(logdir)
        tab.wait_for("mine")
        assert SECRET not in tab.report().text

    def test_a_record_that_becomes_a_link_later_is_not_followed_either(self, logdir, outside):
        tab = tab_on(logdir)
        mine = tab.wait_for("mine")["mine"]
        record = logdir / "mine" / "gpukit" / "run.jsonl"
        record.unlink()
        record.symlink_to(outside / SECRET / "gpukit" / "run.jsonl")
        # By its id: without one, a search that ends in between makes this "no watched run yet".
        answer = tab.report(f"?folder={mine}")
        assert answer.status_code == 404
        assert SECRET not in answer.text

    def test_hundreds_of_hostile_requests_open_no_file_elsewhere(self, logdir, outside):
        foreign = outside / SECRET / "gpukit"
        (foreign / "script.json").write_text(SECRET)
        (logdir / "linked").symlink_to(outside)
        (logdir / "mine" / "gpukit" / "script.json").symlink_to(foreign / "script.json")
        (logdir / "mine" / "gpukit" / "run-1.jsonl").symlink_to(foreign / "run.jsonl")
        tab = tab_on(logdir)
        folder = tab.wait_for("mine")["mine"]
        parts = ["..", ".", "/", "//", "\\", "%2e%2e", "\0", "~", "C:", "file://", "\udcff", "é"]
        parts += [str(outside), str(logdir), f"{logdir}/linked", SECRET, "gpukit", "run.jsonl"]
        parts += ["etc/passwd", "a" * 5000, "\n", "?", "#", "&folder=", "{{7*7}}", "\u202e", folder]
        routes = ("report?folder=", "state?folder=", "report?missing&folder=", "")
        drawn = random.Random(20_261_127)
        with opened_files() as opened:
            for number in range(600):
                asked = "".join(drawn.choices(parts, k=drawn.randint(1, 6)))
                kept = drawn.choice(("", "/."))
                coded = quote(asked.encode("utf-8", "surrogateescape"), safe=kept)
                answer = tab.get(f"plugin/gpukit/{routes[number % 4]}{coded}")
                assert answer.status_code in (200, 301, 308, 400, 404), asked
                assert SECRET not in answer.text.replace(asked, ""), asked
            assert tab.report(f"?folder={folder}").status_code == 200
        allowed = (str(logdir), *map(os.path.realpath, INSTALLED))
        assert any(path.startswith(str(logdir)) for path in opened), "what is opened is seen"
        assert [path for path in opened if not path.startswith(allowed)] == []

    def test_a_pipe_called_like_a_record_hangs_nothing(self, logdir):
        (logdir / "pipe" / "gpukit").mkdir(parents=True)
        os.mkfifo(logdir / "pipe" / "gpukit" / "run.jsonl")
        tab = tab_on(logdir)
        tab.wait_for("mine")
        assert tab.report().status_code == 200


class TestHostileRuns:
    def test_a_folder_called_like_a_script_stays_text(self, tmp_path):
        name = '<img src=x onerror="alert(1)">'
        write_run(tmp_path / name)
        tab = tab_on(tmp_path)
        tab.wait_for(name)
        assert "<img src=x" not in tab.report().text
        assert "<img src=x" not in Tab("--logdir", str(tmp_path / name / "none")).report().text

    def test_a_record_that_cannot_be_read_is_said_to_be_so(self, tmp_path):
        records = {
            "empty": b"",
            "binary": b"\x00\xff\xfe" * 1000,
            "deep": b"{" * 100_000,
            "of the future": b'{"kind": "run", "record": {"schema": 99}}\n',
            "wrong": b'{"kind": "steps", "record": [1, 2]}\n' * 3,
            "no number": b'{"kind": "run", "record": {"schema": 1, "time_s": NaN}}\n',
        }
        for name, record in records.items():
            path = tmp_path / name / "gpukit" / "run.jsonl"
            path.parent.mkdir(parents=True)
            path.write_bytes(record)
        tab = tab_on(tmp_path)
        for name, its_id in tab.wait_for("All 6 folders", *records).items():
            answer = tab.report(f"?folder={its_id}")
            assert answer.content_type.startswith("text/html"), name
            assert "<h1" in answer.text
            assert "Traceback" not in answer.text

    def test_a_report_that_fails_says_why_and_leaves_the_tab_alone(self, tmp_path, monkeypatch):
        def fail(report, **_):
            raise ValueError("<script>alert(1)</script>")

        monkeypatch.setattr(html, "render", fail)
        write_run(tmp_path / "mine")
        tab = tab_on(tmp_path)
        tab.wait_for("mine")
        answer = tab.report()
        assert answer.status_code == 500
        assert "&lt;script&gt;alert(1)" in answer.text
        assert "<script>alert" not in answer.text
        assert tab.listing()["enabled"] is True

    def test_pages_may_run_no_script_but_the_plugins_own_and_take_nothing_in(self, tmp_path):
        write_run(tmp_path)
        tab = tab_on(tmp_path)
        wait_until(tab.folders)
        headers = tab.report().headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        policies = headers.getlist("Content-Security-Policy")
        strict = next(one for one in policies if "default-src 'none'" in one)
        assert "unsafe-inline" not in strict.split("script-src")[1].split(";")[0]
        assert "http" not in strict
        for route in ("index.js", "plotly.js", "state", "report"):
            for method in ("post", "put", "delete", "patch"):
                ask = getattr(tab.client, method)
                answer = ask(f"/data/plugin/gpukit/{route}", data={"a": "b"})
                assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


class TestHugeLogDirectories:
    @pytest.fixture
    def logdir(self, tmp_path) -> Path:
        for number in range(100):
            (tmp_path / f"{number:03}" / "checkpoints").mkdir(parents=True)
        write_run(tmp_path / "zz" / "deep")
        return tmp_path

    def test_the_search_ends_and_says_so_and_runs_near_the_top_are_found_first(
        self, logdir, monkeypatch
    ):
        assert find_run_files(logdir)[1] is True
        assert find_run_files(logdir, within_s=-1.0) == ([], False)
        monkeypatch.setattr(search, "MOST_FOLDERS", 50)
        assert find_run_files(logdir) == ([], False)
        record = write_run(logdir / "zz")
        monkeypatch.setattr(search, "MOST_FOLDERS", 204)
        assert find_run_files(logdir) == ([record], False)

    def test_the_tab_says_that_it_did_not_see_all(self, logdir, monkeypatch):
        monkeypatch.setattr(run_folders, "WITHIN_S", -1.0)
        tab = tab_on(logdir)
        wait_until(lambda: not tab.state()["complete"])

    def test_tensorboard_waits_for_no_search(self, tmp_path, monkeypatch):
        write_run(tmp_path / "mine")
        go_on = threading.Event()
        scandir = os.scandir

        def slow_disk(path):
            go_on.wait(DEADLINE_S)
            return scandir(path)

        monkeypatch.setattr(search.os, "scandir", slow_disk)
        tab = tab_on(tmp_path)
        assert tab.listing()["enabled"] is False
        assert "gpukit-runs" in {thread.name for thread in threading.enumerate()}, "still looking"
        go_on.set()
        wait_until(lambda: tab.listing()["enabled"])


@pytest.mark.heavy
def test_tensorboard_loads_nothing_heavy_for_it(run_python):
    loading = """
import json, sys
import tensorboard.default, tensorboard.backend.http_util
from tensorboard.plugins import base_plugin
from importlib.metadata import entry_points
from argparse import Namespace
before = set(sys.modules)
(entry,) = entry_points(group="tensorboard_plugins", name="gpukit")
flags = Namespace(logdir="/nowhere", logdir_spec="")
plugin = entry.load()().load(base_plugin.TBContext(flags=flags, logdir="/nowhere"))
plugin.get_plugin_apps(), plugin.frontend_metadata()
at_start = set(sys.modules) - before
plugin.is_active()
print(json.dumps([sorted(at_start), sorted(set(sys.modules) - before)]))
"""
    at_start, later = json.loads(run_python(loading).stdout)
    assert all(module.partition(".")[0] == "keras_gpukit" for module in at_start), at_start
    heavy = {"tensorflow", "keras", "plotly", "jinja2", "xprof", "numpy", "psutil", "msgspec"}
    assert not heavy & set(later)
