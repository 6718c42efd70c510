"""When a fork is refused and why, what is loaded ahead, and how that is learned."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_double import DEADLINE_SECONDS, Peer, Starter, plain_environment, starter
from paceline._rank.entry import Entry
from paceline._starter import imports


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that plays site-packages, on everybody's import path."""
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{site}:{path}" if path else str(site))
    yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "ends.py").write_text("import sys\nprint('heavy' in sys.modules)\n")
    return work


def scanned(text: str, folder: Path) -> imports.Scan:
    (folder / "script.py").write_text(text)
    return imports.scan(Entry(kind="script", target="script.py", args=()), str(folder))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os\nos.environ['OMP_NUM_THREADS'] = '2'\nimport torch\n", "OMP_NUM_THREADS"),
        ("import os\nos.environ.setdefault('X', '2')\nimport torch\n", "sets X"),
        ("from os import environ\nenviron.update(X='1')\nimport torch.nn\n", "os.environ"),
        ("import os\nif True:\n    os.environ['A'] = 'b'\nfrom torch import nn\n", "line 2"),
        ("import os\nos.environ[key()] = '2'\nimport torch\n", "os.environ"),
        ("import os\nos.putenv('X', '2')\nimport torch\n", "sets X"),
        ("import os\ndel os.environ['X']\nimport torch\n", "sets X"),
        ("import os, torch\nos.environ['OMP_NUM_THREADS'] = '2'\n", None),
        ("import os\nos.environ['MASTER_PORT'] = '2'\nimport torch\n", None),
        ("import os\nos.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')\nimport torch\n",
         None),
        ("import os\ndef f():\n    os.environ['X'] = '2'\nimport torch\n", None),
        ("import os\nos.environ['X'] = '2'\n", None),
        ("import os\nx = os.environ['X']\nimport torch\n", None),
        ("this is not python\n", None),
    ],
)
def test_script_that_sets_environment_before_torch(
    text: str, why: str | None, tmp_path: Path
) -> None:
    found = scanned(text, tmp_path).sets_environment
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert why in found


def test_seed_is_what_the_script_names_in_site_packages(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "heavy.py").write_text("")
    monkeypatch.syspath_prepend(str(home))
    found = scanned(
        "import json, heavy, torch.nn\nimport mine\n"
        "try:\n    import maybe\nexcept ImportError: pass\n",
        folder,
    )
    assert found.imports == ("json", "heavy", "torch.nn", "mine")
    assert imports.seed(found)[0] == "heavy"
    assert {"torch", "torch.distributed", "torch._dynamo", "torch.nn"} <= set(imports.seed(found))


def test_module_entry_is_found_without_importing(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (folder / "pack" / "run.py").write_text("import torch\n")
    found = imports.scan(Entry(kind="module", target="pack.run", args=()), str(folder))
    assert found.imports == ("torch",)


def why_cold(running: Starter, script: str, **more: object) -> str | None:
    got = running.run("script", script, **more)
    return got.spawned["why_cold"]


def test_thread_in_the_starter_means_cold_and_says_so(home: Path, folder: Path) -> None:
    (home / "threaded.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with starter(folder, "--preload", "threaded") as running:
        assert not running.peer.ready["warm"]
        assert "1 thread" in running.peer.ready["why_cold"]
        got = running.run("script", "ends.py")
        assert got.spawned["how"] == "cold"
        assert "threaded" in got.spawned["why_cold"]
        assert got.out == "False\n"


def test_learned_module_that_starts_a_thread_is_left_out_from_then_on(
    home: Path, folder: Path
) -> None:
    (home / "heavy.py").write_text("")
    (home / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    (folder / "train.py").write_text("import threaded, heavy\nprint('ran')\n")
    with starter(folder, "--entry", "train.py") as running:
        # The starter began again without it; this connection waited in the socket meanwhile.
        assert running.peer.ready["warm"], running.peer.ready
        assert why_cold(running, "train.py") is None


def test_pyarrow_is_loaded_ahead_and_its_allocator_starts_no_thread(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nahead = 'pyarrow' in __import__('sys').modules\nimport pyarrow as pa\n"
        "print(ahead, os.environ.get('JE_ARROW_MALLOC_CONF'), pa.array([1, 2]).sum())\n"
    )
    with starter(folder, "--entry", "train.py") as running:
        assert running.peer.ready["warm"], running.peer.ready
        got = running.run("script", "train.py")
        assert got.spawned["how"] == "fork", got.spawned
        assert got.out == "True None 3\n", got.err


def test_failing_import_is_left_out(home: Path, folder: Path) -> None:
    (home / "heavy.py").write_text("")
    (home / "broken.py").write_text("raise ValueError('needs a device')\n")
    (folder / "train.py").write_text("import heavy\nimport broken\n")
    with starter(folder, "--entry", "train.py") as running:
        assert running.peer.ready["warm"], running.peer.ready
        got = running.run("script", "train.py")
        assert "needs a device" in got.err
        assert got.spawned["how"] == "fork"


def test_ranks_teach_the_next_starter(home: Path, folder: Path) -> None:
    (home / "heavy.py").write_text("")
    (home / "hidden.py").write_text("import heavy\n")
    (folder / "train.py").write_text(
        "import sys\nprint('heavy' in sys.modules)\ndef main():\n    import hidden\nmain()\n"
    )
    (folder / "mine.py").write_text("")
    for known in (False, True):
        with starter(folder, "--entry", "train.py") as running:
            assert running.run("script", "train.py").out.endswith(f"{known}\n")
    (path,) = (folder / "cache" / "paceline" / "imports").iterdir()
    learned = json.loads(path.read_text())["modules"]
    assert [name for name in learned if name in ("heavy", "hidden", "mine")] == ["heavy", "hidden"]
    (home / "new-package").mkdir()  # as an installation would
    with starter(folder, "--entry", "train.py") as running:
        assert running.run("script", "train.py").out.endswith("False\n")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "paceline.imports/1"}', "[" * 99999])
def test_damaged_list_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(text)
    assert imports.ImportList.load(tmp_path / "list") is None


def test_difference_in_an_early_variable_means_cold(folder: Path) -> None:
    with starter(folder) as running:
        assert why_cold(running, "ends.py", env={"ANYTHING": "x"}) is None
        why = why_cold(running, "ends.py", env={"LD_LIBRARY_PATH": "/opt/x"})
        assert why is not None
        assert why.startswith("LD_LIBRARY_PATH differs")
        why = why_cold(running, "ends.py", env={"TORCH_LOGS": "dynamo"})
        assert why is not None
        assert why_cold(running, "ends.py", env={"OMP_NUM_THREADS": "2"}) is None
        assert why_cold(running, "ends.py", warm=False) == "a fresh interpreter was asked for"


@pytest.mark.parametrize(
    "given", [{}, {"LANG": "C"}, {"LC_CTYPE": "POSIX"}, {"LC_CTYPE": "C.UTF-8"}]
)
def test_rank_without_a_locale_is_a_fork_and_has_what_python_sets(
    given: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose image sets no LANG: Python sets LC_CTYPE for itself (PEP 538)."""
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    (folder / "words.py").write_text(
        "import locale, os\nprint({k: v for k, v in os.environ.items() if k[:2] in ('LC', 'LA')}, "
        "locale.setlocale(locale.LC_CTYPE))\n"
    )
    plain = subprocess.run(
        [sys.executable, "words.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    with starter(folder) as running:
        got = running.run("script", "words.py")
        assert got.spawned["why_cold"] is None
        assert got.out == plain.stdout
        other = why_cold(running, "words.py", env={"LC_CTYPE": "en_US.UTF-8"})
        assert other is not None
        assert other.startswith("LC_CTYPE differs")


def test_file_that_shadows_a_loaded_module_means_cold(home: Path, folder: Path) -> None:
    (home / "heavy.py").write_text("name = 'site'\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "heavy.py").write_text("name = 'mine'\n")
    (folder / "sub" / "run.py").write_text("import heavy\nprint(heavy.name)\n")
    (folder / "run.py").write_text("import heavy\nprint(heavy.name)\n")
    with starter(folder, "--preload", "heavy") as running:
        got = running.run("script", "sub/run.py")
        assert got.out == "mine\n"
        assert "sub/heavy.py" in got.spawned["why_cold"]
        got = running.run("script", "run.py")
        assert (got.out, got.spawned["how"]) == ("site\n", "fork")


def test_kept_warm_starter_serves_the_next_agent(folder: Path) -> None:
    with starter(folder, "--keep-warm", "600") as running:
        first = running.peer.ready["pid"]
        running.peer.send(type="bye")
        assert running.peer.read() is None
        running.peer = Peer(running.socket_path)
        assert running.peer.ready["pid"] == first


def test_idle_starter_loads_what_it_has_learned_and_keeps_its_socket(
    home: Path, folder: Path
) -> None:
    for name in ("heavy", "other"):
        (home / f"{name}.py").write_text("")
    (folder / "train.py").write_text(
        "import sys, other\nprint('heavy' in sys.modules)\ndef f():\n    import heavy\nf()\n"
    )
    with starter(folder, "--entry", "train.py", "--keep-warm", "600") as running:
        pid = running.peer.ready["pid"]
        for known in (False, True):
            assert running.run("script", "train.py").out.endswith(f"{known}\n")
            running.peer.send(type="bye")
            assert running.peer.read() is None
            running.peer = Peer(running.socket_path)
            assert running.peer.ready["pid"] == pid


def test_a_starter_whose_agent_has_ended_meanwhile_ends_too(tmp_path: Path) -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with (tmp_path / "starter.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "paceline._starter", "--socket", str(tmp_path / "sock"),
             "--ready-fd", str(write_fd), "--cwd", str(tmp_path), "--keep-warm", "600"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", pass_fds=[write_fd],
            env=plain_environment() | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
            timeout=DEADLINE_SECONDS, check=False)
    os.close(write_fd)
    assert done.returncode == 0
    assert not (tmp_path / "sock").exists()
