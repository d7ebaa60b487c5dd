"""Run the examples of problem codes, for the tests and for `.ci/reference`."""

import os
import re
import shlex
import subprocess

from click.testing import CliRunner

from mlgen.cli import main
from mlgen.reference import rules

PROBLEM = re.compile(rf".* \[({'|'.join(rules.codes())})\]")


def codes(messages):
    """Return the problem codes in messages."""
    return {PROBLEM.fullmatch(line).group(1) for line in messages.splitlines()}


def messages(example, folder):
    """Write the files of an example to a folder, run its commands there, and return the problems.

    mlgen runs in this process, without a PATH, so that it finds no kubectl.
    """
    for name, text in example.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    before = os.getcwd()  # noqa: PTH109 - to go back to it
    os.chdir(folder)
    try:
        lines = [line for part in example.commands.splitlines() for line in _printed(part)]
        return "".join(f"{line}\n" for line in lines if PROBLEM.fullmatch(line))
    finally:
        os.chdir(before)


def _printed(command):
    """Return the lines that mlgen prints in a pipeline, on stderr and at its end."""
    if not re.search(r"\bmlgen\b", command):
        subprocess.run(["bash", "-c", command], check=True)
        return []
    data, lines = b"", []
    for part in command.split(" | "):
        words = shlex.split(part)
        env = {"PATH": ""}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        if words[0] == "mlgen":
            result = CliRunner().invoke(main, words[1:], input=data, env=env)
            if not isinstance(result.exception, (SystemExit, type(None))):
                raise result.exception
            lines += result.stderr.splitlines()
            data = result.stdout_bytes
        else:
            data = subprocess.run(words, input=data, stdout=subprocess.PIPE, check=True).stdout
    return [*lines, *data.decode().splitlines()]
