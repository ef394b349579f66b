"""What conditions say about the stream: the keys that divide it, comparisons that follow from others, what can be compiled.

`keys` finds what divides the stream, `implied` comparisons that follow from others, `narrowing` those that leave a range of its
values to an event, `compilable` what a filter can decide.
They read a bound query and decide nothing: stages of the optimizer do.
"""
