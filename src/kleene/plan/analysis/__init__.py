"""What conditions say about the stream: the keys that divide it, comparisons that follow from others, what can be compiled."""
