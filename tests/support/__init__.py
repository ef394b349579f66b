"""What several test modules share: engine routes for case files, random pairs against the oracle, a Spark session."""
