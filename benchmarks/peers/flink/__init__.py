"""Apache Flink's Pattern API (flink-cep), driven from Python: `process.py` starts one of the programs here and asks it."""
