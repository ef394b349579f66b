"""The experiments of A-Seq (2014), section 6; window methods; throughput on one core and on Spark."""
