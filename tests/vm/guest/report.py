"""Lines of the transcript: what was run and what it said, and each check with expected and actual."""

import subprocess
import sys

TIDEMILL = "/opt/vm/tidemill"
COMMAND_LIMIT_SECONDS = 900

failure_count = 0


def check(claim, actual, expected):
    """Prints one verdict; a failure is counted and the stage goes on, so that one run shows all of them."""
    global failure_count
    if actual == expected:
        print(f"ok   {claim}: {_short(actual)}")
    else:
        failure_count += 1
        print(f"FAIL {claim}: expected {expected!r}, actual {actual!r}")


def fail(claim):
    """A failure with nothing to compare."""
    check(claim, "it happened", "it does not happen")


def note(line):
    """A line that is no verdict, such as a figure or what this kernel lacks."""
    print(f"note {line}")


def title(line):
    print(f"\n--- {line}")


def run(*words, shown=True):
    """Runs a command within a time limit; returns its exit status and both of its outputs as one text."""
    if shown:
        print("$ " + " ".join(words).replace(TIDEMILL, "tidemill"))
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=COMMAND_LIMIT_SECONDS, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(words)} ran longer than {COMMAND_LIMIT_SECONDS} s")
        return -1, ""
    if shown:
        sys.stdout.write(done.stdout)
    return done.returncode, done.stdout


def tune(*words, shown=True):
    return run(TIDEMILL, "tune", *words, shown=shown)


def _short(value):
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
