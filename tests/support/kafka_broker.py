"""A Kafka broker of one's own: a real process in KRaft mode on free ports of this machine, with its data in a given folder."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.kafka_jars import broker_jars, java

CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
HOST = "127.0.0.1"
START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs; topics are made and written by Kafka's own tools, independently of Spark."""

    address: str
    class_path: str

    def create_topic(self, name: str, partitions: int) -> None:
        self._tool("TopicCommand", "--create", "--topic", name, "--partitions", str(partitions))

    def produce(self, topic: str, records: Iterable[tuple[str, str]]) -> None:
        """Writes records of a key, which chooses the partition, and a value; returns when the broker has them all."""
        lines = "".join(f"{key}\t{value}\n" for key, value in records)
        self._tool("ConsoleProducer", "--topic", topic, "--reader-property", "parse.key=true", text=lines)

    def _tool(self, name: str, *arguments: str, text: str = "") -> None:
        command = [*_java(self.class_path), f"org.apache.kafka.tools.{name}", "--bootstrap-server", self.address, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode or "ERROR" in done.stderr:
            raise RuntimeError(f"Kafka's {name} failed:\n{done.stdout}\n{done.stderr}")


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker, ended with the context; its log is `broker.log` in the folder."""
    class_path = os.pathsep.join(str(jar) for jar in broker_jars())
    port, controller = _free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(_properties(port, controller, folder / "data"))
    run = _java(class_path)
    log = folder / "broker.log"
    with log.open("w") as out:
        format = [*run, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
        subprocess.run(format, stdout=out, stderr=out, timeout=120, check=True)
        process = subprocess.Popen([*run, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
    try:
        _wait(process, port, log)
        yield Broker(f"{HOST}:{port}", class_path)
    finally:
        _stop(process)


def _java(class_path: str) -> list[str]:
    return [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path]


def _properties(port: int, controller: int, data: Path) -> str:
    return "\n".join(
        (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@{HOST}:{controller}",
            f"listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
            f"advertised.listeners=PLAINTEXT://{HOST}:{port}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={data}",
            "auto.create.topics.enable=false",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
        )
    )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind((HOST, 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until the broker takes connections, which it does when it is ready to answer."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with code {process.returncode}:\n{log.read_text()[-5000:]}")
        with closing(socket.socket()) as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the broker was not ready after {START_SECONDS} seconds:\n{log.read_text()[-5000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
