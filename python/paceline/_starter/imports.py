"""Which modules a starter loads ahead: learned from ranks, or guessed from the script's text.

There is one list file for each interpreter, entry and import path. It has only modules from
site-packages, because those do not change under a running starter. A list is used only while the
site-packages folders have the modification times noted in it.
"""

import ast
import atexit
import hashlib
import importlib.machinery
import json
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from paceline._base.launch import cache_dir, import_environment
from paceline._base.whole_file import write_whole
from paceline._base.wording import say
from paceline._rank.entry import Entry

SCHEMA = "paceline.imports/1"
# Lists that cannot be kept: said once, and not for each world.
_told_unkept: set[str] = set()
_MODULES_MAX = 20_000
_FILE_BYTES_MAX = 8 << 20
_SCRIPT_BYTES_MAX = 4 << 20

# torch's first DistributedDataParallel loads some 900 more modules, all through torch._dynamo.
_TORCH_SEED = ("torch", "torch.distributed", "torch.nn.parallel", "torch._dynamo")

# Variables that are read at their use, so a script may set them at any time.
_LATE_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",  # makes torch deterministic
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "GLOO_",
    "LOCAL_RANK",
    "MASTER_",
    "NCCL_",
    "RANK",
    "TOKENIZERS_PARALLELISM",
    "TORCH_NCCL_",
    "WANDB_",
    "WORLD_SIZE",
)


def site_dirs() -> list[str]:
    """The site-packages folders on the import path, each with a slash at the end."""
    names = ("site-packages", "dist-packages")
    return [entry + os.sep for entry in sys.path if os.path.basename(entry) in names]


def list_path(entry: Entry, cwd: str) -> Path:
    """The file of the learned list for `entry`."""
    target = os.path.realpath(os.path.join(cwd, entry.target)) if entry.kind == "script" else ""
    words = {
        "python": [os.path.realpath(sys.executable), sys.version],
        "entry": [entry.kind, target or entry.target],
        "environment": import_environment(),
        "prefix": sys.prefix,
    }
    key = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]
    return cache_dir() / "imports" / f"{key}.json"


def _stamp() -> dict[str, int]:
    stamp: dict[str, int] = {}
    for folder in site_dirs():
        try:
            stamp[folder] = os.stat(folder).st_mtime_ns
        except OSError:
            stamp[folder] = 0
    return stamp


@dataclass(frozen=True, kw_only=True)
class ImportList:
    """The content of a list file: `ImportList(modules=("torch",))`."""

    modules: tuple[str, ...] = ()
    avoid: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # module → why it must not be loaded ahead

    @classmethod
    def load(cls, path: Path) -> "ImportList | None":
        """The list in the file; None if there is none or it is out of date."""
        try:
            if path.stat().st_size > _FILE_BYTES_MAX:
                return None
            raw: object = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(raw, dict):
            return None
        fields = cast("dict[str, object]", raw)
        modules, avoid = fields.get("modules"), fields.get("avoid")
        if fields.get("schema") != SCHEMA or fields.get("stamp") != _stamp():
            return None
        if not isinstance(modules, list) or not isinstance(avoid, dict):
            return None
        names = [name for name in cast("list[object]", modules) if isinstance(name, str)]
        reasons = cast("dict[str, object]", avoid)
        return cls(
            modules=tuple(names[:_MODULES_MAX]),
            avoid={name: str(why) for name, why in reasons.items()},
        )

    def save(self, path: Path) -> None:
        """Replace the file. A failure only makes the next start slower."""
        fields = {
            "schema": SCHEMA,
            "modules": list(self.modules),
            "avoid": self.avoid,
            "stamp": _stamp(),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, json.dumps(fields))
        except OSError as error:
            if str(path) not in _told_unkept:
                say(f"the next start will be slower: its list of modules cannot be kept ({error})")
            _told_unkept.add(str(path))

    def without(self, module: str, why: str) -> "ImportList":
        """The same list with a module that must not be loaded ahead, and the reason."""
        return replace(self, avoid=self.avoid | {module: why})


def loaded_site_modules() -> tuple[str, ...]:
    """The modules of site-packages that this process has loaded, in load order."""
    folders = tuple(site_dirs())
    names: list[str] = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if not isinstance(origin, str) or not origin.startswith(folders):
            continue
        if getattr(spec, "name", None) == name and name.partition(".")[0] != "paceline":
            names.append(name)
    return tuple(names[:_MODULES_MAX])


class Learner:
    """Notes in a rank which modules it loaded: at its first step and at its end."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._written: tuple[str, ...] = ()
        self._pid = os.getpid()

    def write(self) -> None:
        """Write the list if it differs from the file."""
        modules = loaded_site_modules()
        if os.getpid() != self._pid or modules == self._written:
            return
        self._written = modules
        known = ImportList.load(self._path) or ImportList()
        if set(known.modules) != set(modules):
            replace(known, modules=modules).save(self._path)

    def write_at_exit(self) -> None:
        """Write once more when the interpreter ends."""
        atexit.register(self.write)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a script's text says about its imports."""

    imports: tuple[str, ...] = ()
    sets_environment: str | None = None  # why a warm start would change the script's behaviour


def scan(entry: Entry, cwd: str) -> Scan:
    """Read the top level of the entry's source. Imports are not followed."""
    path = _source_of(entry, cwd)
    if path is None:
        return Scan()
    try:
        if os.stat(path).st_size > _SCRIPT_BYTES_MAX:
            return Scan()
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Scan()  # running it will print the error
    found: list[str] = []
    sets: str | None = None
    for statement in _top_level(tree.body):
        names = _imported(statement)
        found += names
        if sets is None and not any(name.partition(".")[0] == "torch" for name in found):
            sets = _environment_set(statement)
    if not any(name.partition(".")[0] == "torch" for name in found):
        sets = None  # no import follows that the variable could be too late for
    return Scan(imports=tuple(dict.fromkeys(found)), sets_environment=sets)


def _source_of(entry: Entry, cwd: str) -> str | None:
    if entry.kind == "script":
        path = os.path.join(cwd, entry.target)
        return os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    search: list[str] | None = [cwd, *sys.path]
    origin: str | None = None
    name = ""
    for part in [*entry.target.split("."), "__main__"]:
        if search is None:
            break
        name = f"{name}.{part}" if name else part
        spec = importlib.machinery.PathFinder.find_spec(name, search)
        if spec is None:
            return None
        origin = spec.origin
        search = list(spec.submodule_search_locations) if spec.submodule_search_locations else None
    return origin if origin is not None and origin.endswith(".py") else None


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run whenever the script runs, in order."""
    out: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.With):
            out += _top_level(statement.body)
        else:
            out.append(statement)
    return out


def _imported(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        return [statement.module]
    return []


def _environment_set(statement: ast.stmt) -> str | None:
    """How `statement` changes os.environ when it runs: `os.environ["OMP_NUM_THREADS"] = "2"`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    for node in ast.walk(statement):
        if not isinstance(node, (ast.Assign, ast.Delete, ast.Call)):
            continue
        target: ast.expr | None = None
        if isinstance(node, (ast.Assign, ast.Delete)):
            for candidate in node.targets:
                if isinstance(candidate, ast.Subscript) and _is_environ(candidate.value):
                    target = candidate.slice
        elif isinstance(node.func, ast.Attribute):
            changes = _is_environ(node.func.value) and node.func.attr in (
                "setdefault",
                "update",
                "pop",
                "clear",
            )
            if changes or node.func.attr in ("putenv", "unsetenv"):
                target = node.args[0] if node.args else node.func
        if target is not None:
            key = target.value if isinstance(target, ast.Constant) else None
            if isinstance(key, str) and key.startswith(_LATE_VARIABLES):
                continue
            what = key if isinstance(key, str) else "os.environ"
            return f"the script sets {what} before it imports torch (line {statement.lineno})"
    return None


def _is_environ(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "environ"
    return isinstance(node, ast.Name) and node.id == "environ"


def seed(found: Scan) -> tuple[str, ...]:
    """The first guess: the script's own imports from site-packages, and torch's late ones."""
    names: list[str] = []
    for name in found.imports:
        top = name.partition(".")[0]
        if top == "torch":
            names += _TORCH_SEED
        if top != "paceline" and _is_in_site(top):
            names.append(name)
    return tuple(dict.fromkeys(names))


def _is_in_site(top: str) -> bool:
    spec = importlib.machinery.PathFinder.find_spec(top, sys.path)
    return spec is not None and (spec.origin or "").startswith(tuple(site_dirs()))


def shadowed(folder: str) -> str | None:
    """A file in `folder` that a fresh interpreter would import instead of a module loaded here."""
    loaded = {name.partition(".")[0] for name in sys.modules} - set(sys.builtin_module_names)
    suffixes = tuple(importlib.machinery.all_suffixes())
    try:
        entries = os.listdir(folder)
    except OSError:
        return None
    for entry in sorted(entries):
        top = entry.partition(".")[0]
        if top not in loaded or top == "__main__" or top in _STARTED_WITH:
            continue
        path = os.path.join(folder, entry)
        is_module = entry.endswith(suffixes) or os.path.exists(os.path.join(path, "__init__.py"))
        if is_module and not _is_loaded_from(top, path):
            return path
    return None


def _is_loaded_from(top: str, path: str) -> bool:
    """Whether the loaded module is this very file, because the folder is on the import path."""
    origin = getattr(getattr(sys.modules.get(top), "__spec__", None), "origin", None)
    if not isinstance(origin, str):
        return False
    init = os.path.join(path, "__init__.py")
    return os.path.realpath(origin) in (os.path.realpath(path), os.path.realpath(init))


# Loaded before any script runs, so a file beside the script cannot replace them.
_STARTED_WITH = frozenset(
    [
        "abc",
        "codecs",
        "encodings",
        "genericpath",
        "io",
        "os",
        "posixpath",
        "site",
        "stat",
        "sitecustomize",
        "usercustomize",
        "_collections_abc",
        "_sitebuiltins",
    ]
)
