"""Starts TFF's worker in child processes that end in different ways; prints the processes left behind.

Run it as a program. It forks the children, so that TFF is imported only once.
"""

import os
import signal
import sys
import time

import tensorflow_federated as tff

from tff_momentum.runtime import set_execution_context, tff_worker


def _finish_normally():
  sys.exit(0)


def _raise():
  raise ValueError("an exception in the program")


ENDINGS = {
  "exit": _finish_normally,
  "exception": _raise,
  "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
  "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM),
  "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def _members(group: int) -> list[int]:
  """Returns the living processes of a process group."""
  found = []
  for entry in os.listdir("/proc"):
    try:
      if entry.isdigit() and os.getpgid(int(entry)) == group:
        with open(f"/proc/{entry}/stat") as stat:
          if stat.read().rsplit(")", 1)[1].split()[0] != "Z":
            found.append(int(entry))
    except (ProcessLookupError, FileNotFoundError):
      continue
  return found


def _child(end, report) -> None:
  started = []
  original = tff_worker.WorkerProcess.__init__

  def remember(self, *args, **kwargs):
    original(self, *args, **kwargs)
    started.append(self)

  tff_worker.WorkerProcess.__init__ = remember
  set_execution_context("tff")
  assert tff.tensorflow.computation(lambda: 10)() == 10
  os.write(report, str(started[0].process_group).encode())
  end()


def main() -> None:
  # A shell's background jobs ignore SIGINT, and so would our children.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  for name, end in ENDINGS.items():
    read, write = os.pipe()
    child = os.fork()
    if not child:
      _child(end, write)
    os.close(write)
    group = int(os.read(read, 100))
    os.waitpid(child, 0)
    deadline = time.monotonic() + 10
    while _members(group) and time.monotonic() < deadline:
      time.sleep(0.05)
    print(name, "left", len(_members(group)), "of", group, flush=True)


if __name__ == "__main__":
  main()
