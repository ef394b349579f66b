"""Jars for the Kafka tests, from the Maven registry.

They are resolved by Ivy, which comes with PySpark and is what `spark.jars.packages` uses, and kept in Kleene's cache folder.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

KAFKA = "4.2.0"
CONNECTOR = "spark-sql-kafka-0-10_2.13"
TOKENS = "spark-token-provider-kafka-0-10_2.13"

FALLBACK = ("4.2.0", "4.0.0")
"""The connector and its token provider where the registry has none of Spark's own version: a set that works on Spark 4.3."""

PROBE = ("org.slf4j", "slf4j-api", "2.0.17")
"""A jar that every Maven registry has."""


class RegistryOutOfReachError(Exception):
    """The Maven registry gives nothing at all, not even `PROBE`."""


@dataclass(frozen=True, slots=True)
class Connector:
    """Spark's Kafka connector."""

    version: str
    jars: tuple[Path, ...]

    @property
    def packages(self) -> str:
        """The jars by name, for people."""
        return ", ".join(sorted(jar.stem for jar in self.jars if "kafka" in jar.name))


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def broker_jars() -> tuple[Path, ...]:
    """Kafka's server, its command line tools, and a log for both."""
    return _resolved(
        _dependency("org.apache.kafka", "kafka_2.13", KAFKA),
        _dependency("org.apache.kafka", "kafka-tools", KAFKA, alone=True),
        _dependency("org.slf4j", "slf4j-simple", "1.7.36"),
    )


def connector() -> Connector:
    """The connector of this Spark's version, or of `FALLBACK` where the registry does not have it."""
    try:
        return _connector(pyspark.__version__, pyspark.__version__)
    except LookupError:
        return _connector(*FALLBACK)


def _connector(version: str, tokens: str) -> Connector:
    jars = _resolved(
        _dependency("org.apache.spark", CONNECTOR, version),
        '<exclude org="org.apache.hadoop"/>',  # in PySpark, and large
        '<exclude org="org.scala-lang"/>',
        f'<override org="org.apache.spark" module="{TOKENS}" rev={quoteattr(tokens)}/>',
    )
    return Connector(version, jars)


def _dependency(organisation: str, name: str, version: str, *, alone: bool = False) -> str:
    given = " ".join(f"{key}={quoteattr(value)}" for key, value in (("org", organisation), ("name", name), ("rev", version)))
    return f'<dependency {given} conf="default->{"master" if alone else "default"}"/>'


def _resolved(*dependencies: str) -> tuple[Path, ...]:
    """The jars; `LookupError` if the registry lacks one, `RegistryOutOfReachError` if there is none."""
    jars, said = _ivy(_cache_folder(), dependencies)
    if jars:
        return jars
    with tempfile.TemporaryDirectory() as empty:
        if not _ivy(Path(empty), [_dependency(*PROBE, alone=True)])[0]:
            raise RegistryOutOfReachError(f"no Maven registry can be reached, and {_cache_folder()} does not have the jars")
    raise LookupError(said)


def _ivy(cache: Path, dependencies: list[str] | tuple[str, ...]) -> tuple[tuple[Path, ...], str]:
    """The jars, none if one cannot be had, and what Ivy said."""
    program = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder) / "ivy.xml", Path(folder) / "jars.txt"
        wanted.write_text(
            '<ivy-module version="2.0"><info organisation="kleene" module="tests"/>'
            '<configurations><conf name="default"/></configurations>'
            f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
        )
        command = [java(), "-jar", str(program), "-warn", "-ivy", str(wanted), "-cache", str(cache), "-cachepath", str(found)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return (), f"Ivy did not end within 600 seconds: {' '.join(dependencies)}"
        if done.returncode:
            return (), done.stdout + done.stderr
        return tuple(Path(path) for path in found.read_text().strip().split(os.pathsep)), done.stdout


def _cache_folder() -> Path:
    given = os.environ.get("KLEENE_CACHE_DIR")
    return (Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kleene") / "jars"
