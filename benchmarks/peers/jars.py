"""The jars of other systems, from the registries that pip and Maven clients are set to; kept in Kleene's cache folder.

Maven's are resolved by Ivy, which comes with PySpark and is what `spark.jars.packages` uses. Flink's come from PyPI, where one
package (`apache-flink-libraries`) has all of them. Nothing of them is imported: the jars are all that is used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

FLINK = "2.3.0"
ESPER = "9.0.0"
SIDDHI = "5.1.30"
TIMEOUT = 600
"""Seconds for a registry to answer."""


class Unavailable(RuntimeError):  # noqa: N818 -- reads as what it is
    """A system could not be fetched, compiled against or started; the message says why."""


def cache_folder() -> Path:
    """Where jars and classes are kept."""
    given = os.environ.get("KLEENE_CACHE_DIR")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kleene"


def flink_jars(*, fetch: bool = True, say: Callable[[str], None] = print) -> list[Path]:
    """Flink's jars, fetched first if they are not there and may be."""
    environment = cache_folder() / "flink" / "venv"
    pattern = "lib/python*/site-packages/pyflink/lib/*.jar"
    if not list(environment.glob(pattern)):
        _allow(fetch, f"Flink {FLINK}")
        say(f"Flink {FLINK} is not there yet: fetching 330 MB from PyPI into {environment} (--no-jvm leaves Flink out)")
        venv.create(environment, with_pip=True, clear=True)
        package = f"apache-flink-libraries=={FLINK}"
        run([str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", package])
    return sorted(environment.glob(pattern))


def esper_jars(*, fetch: bool = True) -> list[Path]:
    """Esper's compiler and runtime, with what they need (licensed under the GPL, version 2)."""
    wanted = [("com.espertech", f"esper-{part}", ESPER) for part in ("common", "compiler", "runtime")]
    return maven(*wanted, fetch=fetch)


def siddhi_jars(*, fetch: bool = True) -> list[Path]:
    """Siddhi's core and what it runs with, one by one: some of what it names is repackaged, and in no public registry."""
    own = [("io.siddhi", f"siddhi-{part}", SIDDHI) for part in ("core", "query-api", "query-compiler", "annotations")]
    return maven(*own, *SIDDHI_NEEDS, alone=True, fetch=fetch)


SIDDHI_NEEDS = (
    ("com.lmax", "disruptor", "3.4.2"),
    ("org.antlr", "antlr4-runtime", "4.11.1"),
    ("org.mvel", "mvel2", "2.4.5.Final"),
    ("com.google.guava", "guava", "33.0.0-jre"),
    ("com.google.code.gson", "gson", "2.10.1"),
    ("io.dropwizard.metrics", "metrics-core", "3.1.0"),
    ("org.quartz-scheduler", "quartz", "2.3.2"),
    ("org.osgi", "org.osgi.core", "6.0.0"),
    ("org.apache.logging.log4j", "log4j-api", "2.22.1"),
    ("org.slf4j", "slf4j-api", "2.0.11"),
    ("org.slf4j", "slf4j-nop", "2.0.11"),
)


def maven(*wanted: tuple[str, str, str], alone: bool = False, fetch: bool = True) -> list[Path]:
    """The jars of some artifacts and, unless `alone`, of all they depend on; those once resolved are not asked for again."""
    listed = cache_folder() / "jars" / f"{wanted[0][1]}-{wanted[0][2]}.txt"
    if listed.exists():
        found = [Path(line) for line in listed.read_text().splitlines()]
        if all(path.exists() for path in found):
            return found
    _allow(fetch, f"{wanted[0][1]} {wanted[0][2]}")
    found = _resolved(wanted, "master" if alone else "default")
    listed.write_text("\n".join(map(str, found)))
    return found


def _allow(fetch: bool, what: str) -> None:
    if not fetch:
        raise Unavailable(f"{what} is not on this machine, and a quick run fetches nothing: `kleene bench peers` does")


def _resolved(wanted: Sequence[tuple[str, str, str]], configuration: str) -> list[Path]:
    try:
        import pyspark
    except ModuleNotFoundError:
        raise Unavailable("jars are fetched by Ivy, which comes with pyspark, and that is not installed") from None
    program = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    dependencies = "".join(
        f'<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} conf="default->{configuration}"/>'
        for group, name, version in wanted
    )
    cache = cache_folder() / "jars"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        module, paths = Path(folder) / "ivy.xml", Path(folder) / "jars.txt"
        module.write_text(
            '<ivy-module version="2.0"><info organisation="kleene" module="peers"/>'
            f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
        )
        java = tool("java")
        run([java, "-jar", str(program), "-warn", "-ivy", str(module), "-cache", str(cache), "-cachepath", str(paths)])
        return [Path(path) for path in paths.read_text().strip().split(os.pathsep)]


def tool(name: str) -> str:
    """A program of the JDK: that of JAVA_HOME, or one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if found is None:
        raise Unavailable(f"there is no {name}, neither in JAVA_HOME nor on the PATH: install a JDK of version 17 or newer")
    return found


def run(command: Sequence[str]) -> None:
    """Runs a program; what it says is shown only if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{' '.join(command)}` did not end within {TIMEOUT} seconds") from None
    if done.returncode != 0:
        hint = "--no-jvm leaves out what needs it"
        raise Unavailable(f"`{' '.join(command)}` failed; {hint}\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
