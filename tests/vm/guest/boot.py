"""Runs at every boot of the virtual machine: the next stage, then a reboot, or the end.

Stages share a JSON file; the host reads `vm: end` and how many checks failed.
"""

import json
import pathlib
import subprocess
import time
import traceback

import report
import stages

STATE = pathlib.Path("/var/lib/tidemill-vm/state.json")


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"stage": 0, "failures": 0}
    stage = stages.ALL[state["stage"]]
    started = time.monotonic()
    report.title(f"boot {state['stage'] + 1}: {stage.__doc__.splitlines()[0]}")
    try:
        stage(state)
    except Exception:
        report.fail(f"stage {stage.__name__} broke off: {traceback.format_exc()}")
    state["stage"] += 1
    state["failures"] += report.failure_count
    report.note(f"stage took {time.monotonic() - started:.0f} s")
    STATE.parent.mkdir(parents=True, exist_ok=True)
    STATE.write_text(json.dumps(state))
    if state["stage"] < len(stages.ALL):
        leave("reboot")
    else:
        print(f"vm: end {state['failures']} failed")
        leave("poweroff")


def leave(how):
    # It asks systemd itself where there is no message bus, and says so.
    subprocess.run(["systemctl", "--no-block", how], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
