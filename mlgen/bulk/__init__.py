"""Many texts → their manifests and problems, one document at a time, in one process or several.

A rendered job is dropped as soon as its text is written. What later jobs and the totals need of it
travels as an `Outcome`: texts and small facts, no topologies and no objects. So memory hardly
depends on the number of jobs, and another process can do the work.
"""

from collections.abc import Iterable
from functools import partial

from mlgen.bulk.errors import WorkerError
from mlgen.bulk.gathered import Gathered
from mlgen.bulk.outcomes import Form, outcomes
from mlgen.dialects import pieces
from mlgen.documents.files import Text
from mlgen.result import Options

__all__ = ["Form", "Gathered", "WorkerError", "gather", "pieces"]


def gather(
    texts: Iterable[Text], options: Options, form: Form, jobs: int = 1, *, lines: bool = False
) -> Gathered:
    """Return what texts render to, without the jobs that have errors; as `pipeline.attempt` does.

    Args:
        texts: are read when they are needed.
        options: of the rendering.
        form: of the output.
        jobs: the number of processes; 0 stands for one on each core.
        lines: keep the lines of problems, for excerpts.

    Raises:
        WorkerError: a process has ended before its work.
    """
    gathered = Gathered(with_lines=lines)
    work = partial(outcomes, options=options, form=form, lines=lines)
    if jobs == 1:
        for text in texts:
            gathered.add(text, work(text))
            if gathered.is_full:
                break
    else:
        from contextlib import closing

        from mlgen.bulk.workers import cores, results

        with closing(results(work, texts, jobs or cores())) as pairs:
            for text, result in pairs:
                gathered.add(text, result)
                if gathered.is_full:
                    break
    gathered.finish()
    return gathered
