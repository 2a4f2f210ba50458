"""Tails of tests, which give operands by position as the text mentions them."""

import epifuse


def as_written(text, scalars=(), **options):
    """epifuse.compile with the order of the operands' first use as a stated one."""
    names = epifuse.compile(text, scalars).inputs
    return epifuse.compile(f"input {', '.join(names)}; {text}" if len(names) > 1 else text, scalars, **options)
