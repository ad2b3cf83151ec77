"""Runs examples and says how each went, one line for each: ok, failed or skipped."""

import os
import sys
import traceback

_EXAMPLES = []


class Skip(Exception):
    """The example can't be tried here; says why."""


def example(function):
    """Marks a function as an example; its name, with spaces, is the example's."""
    _EXAMPLES.append(function)
    return function


def equal(got, expected, what=""):
    """Asserts that this is what the documentation says."""
    if got != expected or type(got) is not type(expected):
        raise AssertionError(f"{what + ': ' if what else ''}expected {expected!r}, got {got!r}")


def true(got, what):
    """Asserts that it holds."""
    if not got:
        raise AssertionError(f"expected {what}, got {got!r}")


def raises(kind, text, call):
    """Asserts that the call raises this, with this text in it."""
    try:
        got = call()
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"expected an error with {text!r}, got {error!s}") from error
        return
    raise AssertionError(f"expected {kind.__name__} with {text!r}, got {got!r}")


def address(variable):
    """The server's host and port."""
    host, port = os.environ[variable].rsplit(":", 1)
    return host, int(port)


def run(before):
    """Runs all of them, each after `before`; what it returns is the example's argument."""
    for function in _EXAMPLES:
        name = function.__name__.replace("_", " ")
        try:
            function(before())
            print(f"ok {name}")
        except Skip as reason:
            print(f"skipped {name}: {reason}")
        except Exception as error:  # Whatever it is, the other examples are tried.
            at = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in at if frame.filename.endswith("main.py")][-1:]
            line = own[0].lineno if own else 0
            said = " ".join(str(error).split())
            print(f"failed {name}: line {line}: {type(error).__name__}: {said[:1000]}")
        sys.stdout.flush()
    print("end")
