"""Other systems beside Kleene: the suite `peers`, and the programs of those that need one of their own.

`streams.py` has the workloads; `relational.py` and `on_spark.py` write them as SQL and joins; the programs for engines on a JVM
are in `flink`, `esper` and `siddhi`: `jars.py` fetches what they need, `jvm.py` compiles, starts and asks them. None of it is
needed to use Kleene.
"""
