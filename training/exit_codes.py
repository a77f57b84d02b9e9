"""Exit codes of training.launch. A leaf: infra reads them to say what happened to a host.

MaxText itself exits 0 after a SIGTERM with steps missing, so launch compares the last step with `steps` and picks one.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    FINISHED = 0  # the last step equals `steps`
    FAILED = 1  # training stopped with an error; the log says which
    BAD_INPUT = 2  # run spec, data, flags or environment cannot work; running again changes nothing
    REPEATED = 3  # the same error at the same step once more, or numbers gone bad: running again changes nothing
    INTERRUPTED = 75  # told to stop; a checkpoint is saved, the same run spec resumes (sysexits EX_TEMPFAIL)
