"""`kleene pack`: a Python, Kleene and its compiled kernels in one archive, for the executors of a cluster.

The archive is a folder that runs wherever it is unpacked: the interpreter of this environment with its standard library, the
packages that Kleene requires as they are installed here, and the kernels compiled so far. What Spark ships itself is left out,
so that the cluster's own version is used. `bin/python` is a script that locates the rest relative to itself.

Kernels are cached by version and by processor (`kleene.engine.kernels`), so an executor with the same processor loads them and
compiles nothing; with another one it compiles its own.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import platform
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from kleene.common.errors import DataError, Problem
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.terminal import say

if TYPE_CHECKING:  # these take as long to load as everything else that --help needs
    import importlib.metadata

    from packaging.requirements import Requirement

HELP = "pack Python, Kleene and its compiled kernels for the executors of a cluster"
DESCRIPTION = (
    "Writes an archive that spark-submit --archives ENV.tar.gz#environment unpacks on every executor, where "
    "./environment/bin/python is this Python with Kleene, its dependencies, and its compiled kernels. See docs/clusters.md."
)

SUFFIXES = (".tar.gz", ".tgz")
LEFT_OUT = ("pyspark", "py4j")
"""Packages that Spark puts first on the path of its workers, in its own version."""

UNUSED = ("site-packages", "dist-packages", "test", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip")
"""Folders of the standard library that workers never import."""

COMPRESSION = 3
"""Compression level: half the time of zlib's default, for 5 % more bytes."""

LAUNCHER = """\
#!/bin/sh
# Runs the Python of this folder, wherever the folder is.
root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
unset PYTHONHOME
export PYTHONNOUSERSITE=1
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$root/{packages}"
export LD_LIBRARY_PATH="$root/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export KLEENE_CACHE_DIR="${{KLEENE_CACHE_DIR:-$root/kernels}}"
exec "$root/bin/{python}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, and its name in the archive."""

    source: Path
    name: str


@dataclass(frozen=True, slots=True)
class Packed:
    """The contents of an archive."""

    packages: tuple[str, ...]
    """The names of all distributions, in the order they were found."""
    kernels: int
    bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="ENV.tar.gz", help="the archive to write")
    parser.add_argument(
        "--with",
        dest="packages",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="an installed package that your functions need, with its dependencies; may be repeated",
    )
    parser.add_argument("--no-warm-up", action="store_true", help="pack only the kernels that are compiled already")


def run(arguments: argparse.Namespace) -> int:
    """Compiles the kernels and writes the archive."""
    import importlib.metadata

    from rich.console import Console

    path = Path(arguments.archive)
    if not path.name.endswith(SUFFIXES):
        raise UsageError(f"the archive's name ends in {' or '.join(SUFFIXES)}, which tells Spark to unpack it: {path.name!r}")
    begin = time.monotonic()
    with Console(stderr=True).status("") as status:
        packed = pack(path, packages=arguments.packages, warm=not arguments.no_warm_up, tell=status.update)
    kleene = f"kleene {importlib.metadata.version('kleene')} with {len(packed.packages) - 1} packages"
    size = f"{packed.bytes / 1e6:,.0f} MB, {time.monotonic() - begin:.1f} s"
    say(f"{path}: Python {platform.python_version()}, {kleene}, {packed.kernels} kernels; {size}")
    return 0


def pack(
    path: Path, *, packages: Iterable[str] = (), warm: bool = True, tell: Callable[[str], None] = lambda _: None
) -> Packed:
    """Writes the archive, or nothing if anything is missing; `tell` is called with the progress."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    interpreter = Interpreter.here()
    found = distributions(["kleene[spark]", *packages])
    packed = [part for item in found.values() for part in _files(item, interpreter.packages)]
    kernels = _kernels(warm, tell)
    _write(path, interpreter, [*interpreter.parts(), *packed, *kernels], tell)
    return Packed(tuple(found), sum(part.name.endswith(".nbc") for part in kernels), path.stat().st_size)


# --- the interpreter ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and the locations of its parts."""

    binary: Path
    library: Path
    """The folder of the standard library..."""
    place: PurePosixPath
    """...and where the interpreter looks for it, from the folder above its own."""
    shared: Path | None
    """The library that the binary is linked to."""

    @classmethod
    def here(cls) -> Interpreter:
        """The Python that runs this process, without its virtual environment."""
        base = Path(sys.base_prefix)
        if sys.platform != "linux":
            hint = "run `kleene pack` on a machine, or in a container, like those of the cluster"
            raise DataError(Problem(f"an archive of {platform.system()} does not run on executors, which are Linux", hint=hint))
        if (base / "conda-meta").is_dir():
            hint = "pack the environment with conda-pack, and the kernels as in docs/clusters.md"
            raise DataError(Problem(f"{base} is a conda environment, whose libraries are in several folders", hint=hint))
        library = Path(sysconfig.get_path("stdlib"))
        return cls(Path(sys.executable).resolve(), library, PurePosixPath(library.relative_to(base)), _shared_library())

    @property
    def packages(self) -> PurePosixPath:
        """The folder of packages in an archive."""
        return self.place / "site-packages"

    @property
    def name(self) -> str:
        """The binary's name in an archive, next to the script `python`."""
        return f"python{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def launcher(self) -> str:
        """The text of `bin/python`."""
        return LAUNCHER.format(packages=self.packages, python=self.name)

    def parts(self) -> Iterator[Part]:
        """The binary, its library, and the modules of the standard library."""
        yield Part(self.binary, f"bin/{self.name}")
        if self.shared is not None:
            yield Part(self.shared, f"lib/{self.shared.name}")
        for source in _tree(self.library):
            top = source.relative_to(self.library).parts[0]
            if top not in UNUSED and not top.startswith("config-"):
                yield Part(source, str(self.place / source.relative_to(self.library)))


def _shared_library() -> Path | None:
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return None
    path = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(sysconfig.get_config_var("INSTSONAME"))
    if not path.is_file():
        hint = "use a Python whose library is where it was built for, or one without a shared library"
        raise DataError(Problem(f"this Python's library is not at {path}", hint=hint))
    return path


# --- packages -------------------------------------------------------------------------------------------------------------


def distributions(wanted: Iterable[str]) -> dict[str, importlib.metadata.Distribution]:
    """The distributions of requirements (`name`, `name[extra]`) and of all their dependencies, by normalized name."""
    import importlib.metadata

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [_requirement(text) for text in wanted]
    seen = set(map(str, waiting))
    while waiting:
        needed = waiting.pop(0)
        name = canonicalize_name(needed.name)
        try:
            item = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise DataError(Problem(f"no package '{name}' is installed here", hint=f"pip install {name}")) from error
        found.setdefault(name, item)
        for text in item.requires or ():
            own = Requirement(text)
            if text not in seen and canonicalize_name(own.name) not in LEFT_OUT and _applies(own, needed.extras):
                seen.add(text)
                waiting.append(own)
    return found


def _requirement(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise DataError(Problem(f"'{text}' is not the name of a package", hint="for example --with shapely")) from error


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether it is required on this machine, with some extras of the package that requires it."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _files(item: importlib.metadata.Distribution, folder: PurePosixPath) -> Iterator[Part]:
    """The installed files of a distribution, without its tests, and without scripts and the like, which lie elsewhere."""
    if item.name == "kleene":
        import kleene

        home = Path(kleene.__file__).parent  # also of an editable installation, whose files are not listed
        yield from (Part(source, str(folder / "kleene" / source.relative_to(home))) for source in _tree(home))
    elif _editable(item):
        hint = "install it with pip install PATH, without --editable"
        raise DataError(Problem(f"package '{item.name}' is installed in editable mode, with its files elsewhere", hint=hint))
    for file in item.files or ():
        source = Path(str(item.locate_file(file)))
        wanted = not {"..", "tests"} & set(file.parts) and file.suffix != ".pth" and file.parts[0] != "kleene"
        if wanted and source.is_file():
            yield Part(source, str(folder / file))


def _editable(item: importlib.metadata.Distribution) -> bool:
    origin: dict[str, Any] = json.loads(item.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


# --- kernels --------------------------------------------------------------------------------------------------------------


def _kernels(warm: bool, tell: Callable[[str], None]) -> list[Part]:
    """The compiled kernels of this version; missing ones that every query needs are compiled now."""
    from kleene.engine.kernels import cache_folder
    from kleene.engine.kernels.cache_directory import fingerprints

    folder = cache_folder()
    if folder is None:
        hint = "set KLEENE_CACHE_DIR to a folder that is writable, and do not set KLEENE_KERNELS"
        raise DataError(Problem("compiled kernels are not cached here, so there are none to pack", hint=hint))
    if warm:
        from kleene.interfaces.commands.pack.warm_up import warm_up

        warm_up(tell)
    current = fingerprints()
    sources = [source for source in _tree(folder) if source.suffix == ".nbc" and current.intersection(source.name.split("."))]
    return [Part(source, f"kernels/{folder.name}/{source.relative_to(folder)}") for source in sources]


# --- the archive ----------------------------------------------------------------------------------------------------------


def _tree(folder: Path) -> list[Path]:
    """The files of a folder and of those below it."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _write(path: Path, interpreter: Interpreter, parts: list[Part], tell: Callable[[str], None]) -> None:
    """Writes under a temporary name first, so that there is never a partial archive under the given one."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    names = set[str]()
    try:
        with tarfile.open(written, "w:gz", compresslevel=COMPRESSION, dereference=True) as archive:
            launcher = tarfile.TarInfo("bin/python")
            launcher.mode, launcher.size = 0o755, len(interpreter.launcher.encode())
            archive.addfile(launcher, io.BytesIO(interpreter.launcher.encode()))
            for number, part in enumerate(parts):
                if part.name not in names:
                    names.add(part.name)
                    archive.add(part.source, part.name, recursive=False, filter=_nobodys)
                if number % 100 == 0:
                    tell(f"packing {number:,} of {len(parts):,} files")
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes owners, which differ between machines, and fractions of seconds, which compiled modules (.pyc) do not record."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    return entry
