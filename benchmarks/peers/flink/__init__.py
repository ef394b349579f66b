"""Apache Flink's Pattern API (flink-cep), driven from Python: `process.py` starts and asks `StockPatterns.java`."""
