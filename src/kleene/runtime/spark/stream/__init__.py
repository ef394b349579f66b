"""Structured Streaming: rows packed by bucket, the stateful operator, sinks, and rules as a source of their own."""
